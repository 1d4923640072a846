import pytest
import torch

import ksmm
from ksmm.linear import KSLinear
from ksmm.networks.build import build_network
from ksmm.networks.cache import RepeatableCache
from ksmm.networks.chains import paper_chain
from ksmm.networks.entry import FULLY_CONNECTED, Entry
from ksmm.networks.language import NextToken
from ksmm.networks.modes import prepare
from ksmm.networks.network import UnavailableError
from tests.networks.conftest import ENTRIES, changed


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def test_the_papers_chains():
    assert paper_chain(384, 384) == ksmm.Chain([(1, 192, 48, 2), (2, 48, 192, 1)])
    assert paper_chain(384, 1536) == ksmm.Chain([(1, 768, 192, 2), (6, 64, 64, 1)])
    assert paper_chain(1536, 384) == ksmm.Chain([(6, 64, 64, 1), (1, 192, 768, 2)])
    for sizes in ((1024, 1024), (384, 768), (384, 1000)):
        with pytest.raises(ValueError, match=f"{sizes[1]} × {sizes[0]} is none of these"):
            paper_chain(*sizes)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_a_network_computes_what_its_dense_equivalent_does(entry, device):
    network = build_network(entry, device, seed=0)
    y = network.run()
    expected = network.equivalent_output([0, 1], torch.float64)
    assert y.shape[0] == entry.batch_size and y.dtype == torch.float32 and y.device.type == device
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-5)
    layers = [layer for layer in network.module.modules() if isinstance(layer, KSLinear)]
    assert layers and all(layer._frozen and layer.implementation == "bmm" for layer in layers)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_items_of_a_batch_do_not_depend_on_each_other(entry):
    network = build_network(entry, "cpu", seed=0)
    torch.testing.assert_close(
        network.equivalent_output([1], torch.float64), network.equivalent_output([0, 1], torch.float64)[1:]
    )


@pytest.mark.parametrize(("chains", "more"), [("paper", set()), ("default", {"o_proj"})])
@pytest.mark.parametrize("part", ["whole", "block", "attention"])
def test_appendix_b7_leaves_the_output_projection_dense_and_the_default_chains_do_not(part, chains, more):
    module = build_network(
        changed(ENTRIES["whole"], network="vit_tiny_wide", part=part, chains=chains), "cpu", seed=0
    ).module
    sparse = {name.rpartition(".")[2] for name, layer in module.named_modules() if isinstance(layer, KSLinear)}
    assert sparse == {"q_proj", "k_proj", "v_proj"} | more | (set() if part == "attention" else {"fc1", "fc2"})


def test_a_dense_network_has_no_sparse_layer():
    assert "KSLinear" not in str(
        build_network(changed(ENTRIES["whole"], implementation=FULLY_CONNECTED), "cpu", 0).module
    )


def test_the_seed_decides_and_nothing_outside_is_drawn():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, two, other = (build_network(ENTRIES["feed_forward"], "cpu", seed).run() for seed in (0, 0, 1))
    assert torch.equal(one, two) and not torch.equal(one, other)
    assert torch.equal(torch.rand(1), expected)


def test_half_precision_is_everywhere():
    network = build_network(changed(ENTRIES["decode"], accuracy_class="float16"), "cpu", seed=0)
    assert {parameter.dtype for parameter in network.module.parameters()} == {torch.float16}
    assert network.cache.keys[0].dtype == network.run().dtype == torch.float16


def test_a_decoded_token_has_the_logits_of_the_whole_sequence():
    entry = changed(ENTRIES["prefill"], implementation=FULLY_CONNECTED)
    model = build_network(entry, "cpu", seed=0).module.model
    tokens = torch.randint(256, (2, 9))
    positions = torch.arange(9).expand(2, 9)
    cache = RepeatableCache(2, (2, 2, 8, 64), 0, torch.float32, "cpu")
    NextToken(model)(tokens[:, :8], positions[:, :8], cache)
    longer = RepeatableCache(2, (2, 2, 9, 64), 8, torch.float32, "cpu")
    for side in ("keys", "values"):
        for short, long in zip(getattr(cache, side), getattr(longer, side), strict=True):
            long[:, :, :8] = short
    expected = model(tokens).logits[:, -1]
    for _ in range(2):  # it can be repeated
        y = NextToken(model)(tokens[:, 8:], positions[:, 8:], longer)
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["whole", "decode"])
def test_blocks_are_compiled(name, monkeypatch):
    # The compiler's back end takes minutes on a busy machine, and is PyTorch's; what it is given is ours.
    compile_block, compiled = torch.nn.Module.compile, []

    def with_eager_backend(block, **options):
        compiled.append(block)
        compile_block(block, backend="eager", fullgraph=True, **options)

    monkeypatch.setattr(torch.nn.Module, "compile", with_eager_backend)
    network = build_network(ENTRIES[name], "cpu", seed=0)
    expected = network.run()
    torch.testing.assert_close(prepare(network, "compile")(), expected, rtol=1e-4, atol=1e-5)
    assert tuple(compiled) == network.blocks and len(compiled) == 2


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("mode", ["cuda_graph", "compile", "compile_cuda_graph"])
@pytest.mark.parametrize("name", ["whole", "prefill", "decode"])
def test_every_mode_computes_the_same(name, mode):
    network = build_network(changed(ENTRIES[name], implementation="kernel"), "cuda", seed=0)
    expected = network.run()
    run = prepare(network, mode)
    for _ in range(2):
        run().fill_(torch.nan)  # a replay that does not write its output shows
        torch.testing.assert_close(run(), expected, rtol=1e-4, atol=1e-4)


def test_what_is_not_installed_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(UnavailableError, match="timm cannot be imported"):
        build_network(changed(ENTRIES["whole"], network="vit_s16_timm"), "cpu", 0)
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    for name in ("whole", "prefill", "llama"):
        with pytest.raises(UnavailableError, match=r"transformers cannot be imported.*networks"):
            build_network(ENTRIES[name], "cpu", 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"network": "alexnet"}, "unknown network 'alexnet'"), ({"chains": "daisy"}, "unknown chains 'daisy'")],
)
def test_unknown_names_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        build_network(changed(ENTRIES["whole"], **changes), "cpu", 0)


@pytest.mark.parametrize("changes", [{"part": "leg"}, {"mode": "fast"}, {"accuracy_class": "exact"}])
def test_an_entry_with_an_unknown_word_is_refused(changes):
    ((name, value),) = changes.items()
    with pytest.raises(ValueError, match=f"{name} is '{value}'; it must be one of"):
        Entry(**(ENTRIES["whole"].to_dict() | changes))


def test_a_rule_that_replaces_nothing_is_refused():
    with pytest.raises(ValueError, match="no chain for any of the layers"):
        build_network(ENTRIES["feed_forward"], "cpu", 0, rule=lambda n, m: None)
