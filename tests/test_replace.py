"""replace_linear on models of PyTorch and, with random weights and tiny, of transformers."""

import copy
import re

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import ksmm
from ksmm.networks.equivalent import dense_equivalent


def small_chain(in_features, out_features):
    return ksmm.monarch(out_features, in_features, 4)


def two_layers(**options):
    return nn.Sequential(nn.Linear(32, 64, **options), nn.GELU(), nn.Linear(64, 32, bias=False, **options))


def vit():
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    return ViTModel(ViTConfig(**sizes, image_size=32, patch_size=8)), torch.randn(2, 3, 32, 32)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    tokens = {"vocab_size": 100, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=2, n_head=2, **tokens)), torch.randint(100, (2, 12))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(**sizes, num_key_value_heads=2, vocab_size=100, tie_word_embeddings=False)
    return LlamaForCausalLM(config), torch.randint(100, (2, 12))


def heads(make):
    """Names of the layers that share a weight, or have no chain."""
    return () if make is vit else "lm_head"


def first_output(model, x):
    with torch.no_grad():
        return model(x)[0]


@pytest.mark.parametrize("make", [vit, gpt2, llama])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_a_network_computes_what_its_dense_equivalent_does(make, dtype, tolerance):
    model, x = make()
    model = model.eval().to(dtype)
    x = x.to(dtype) if x.is_floating_point() else x
    before = first_output(model, x)
    report = ksmm.replace_linear(model, small_chain, exclude=heads(make))
    assert len(report.replaced) >= 8 and report.left == ()
    y = first_output(model, x)
    expected = first_output(dense_equivalent(model), x)
    torch.testing.assert_close(y, expected, rtol=tolerance, atol=tolerance)
    assert y.shape == before.shape and y.dtype == dtype
    assert not torch.allclose(y, before, rtol=1e-3, atol=1e-3)  # the weights are new


@pytest.mark.parametrize("make", [vit, gpt2, llama])
def test_the_state_is_saved_and_loaded(make, tmp_path):
    (one, x), (two, _) = make(), make()
    for model in (one, two):
        ksmm.replace_linear(model.eval(), small_chain, exclude=heads(make), implementation="bmm")
    torch.save(one.state_dict(), tmp_path / "state.pt")
    two.load_state_dict(torch.load(tmp_path / "state.pt"))
    torch.testing.assert_close(first_output(two, x), first_output(one, x))


def test_gradients_reach_every_new_weight():
    model, x = gpt2()
    ksmm.replace_linear(model, small_chain, exclude="lm_head")
    model(x, labels=x).loss.backward()
    assert all(parameter.grad.abs().sum() > 0 for name, parameter in model.named_parameters() if "factors" in name)


def test_everything_else_is_kept():
    model = two_layers(dtype=torch.bfloat16).eval()
    model[0].weight.requires_grad_(False)
    bias, activation = model[0].bias, model[1]
    report = ksmm.replace_linear(model, small_chain, modules="0", implementation="bmm")
    layer = model[0]
    assert [entry.name for entry in report.replaced] == ["0"]
    assert isinstance(layer, ksmm.KSLinear) and type(model[2]) is nn.Linear and model[1] is activation
    assert layer.bias is bias and not layer.training and layer.implementation == "bmm"
    assert all(factor.dtype == torch.bfloat16 and not factor.requires_grad for factor in layer.factors)
    ksmm.replace_linear(model.train(), small_chain)
    assert model[2].bias is None and model[2].training and model[2].factors[0].requires_grad


def test_the_meta_device_is_kept():
    model = two_layers(device="meta")
    ksmm.replace_linear(model, small_chain)
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_the_report_counts_parameters_and_operations():
    model = two_layers()
    report = ksmm.replace_linear(model, lambda n, m: small_chain(n, m) if n == 32 else None)
    chain = ksmm.monarch(64, 32, 4)
    assert report.parameters_before == 2 * 32 * 64 + 64
    assert report.parameters_after == 32 * 64 + 64 + chain.nnz == sum(p.numel() for p in model.parameters())
    assert report.operations_before == 4 * 32 * 64
    assert report.operations_after == 2 * 32 * 64 + 2 * chain.nnz
    assert report.left == ("2",)
    first, second, third = str(report).splitlines()
    assert first.startswith("1 layer replaced: 4,160 parameters became ")
    assert second == f"  0: 32 -> 64, {chain}"
    assert third == "  2: left dense, as the rule has no chain for it"


@pytest.mark.parametrize(
    ("modules", "exclude", "expected"),
    [
        ("*.mlp.*", (), {"mlp.c_fc", "mlp.c_proj"}),
        (re.compile(r".*\.h\.\d+\.attn\.c_(attn|proj)"), (), {"attn.c_attn", "attn.c_proj"}),
        (["*.mlp.c_fc", re.compile(".*c_attn")], (), {"mlp.c_fc", "attn.c_attn"}),
        ("*", ["lm_head", "*.attn.*"], {"mlp.c_fc", "mlp.c_proj"}),
    ],
)
def test_layers_are_chosen_by_name(modules, exclude, expected):
    report = ksmm.replace_linear(gpt2()[0], small_chain, modules=modules, exclude=exclude)
    names = {entry.name for entry in report.replaced}
    assert names == {f"transformer.h.{block}.{name}" for block in (0, 1) for name in expected}


def shared_weight(model):
    model.append(nn.Linear(32, 64))
    model[3].weight = model[0].weight


def shared_module(model):
    model.append(model[0])


def hook(model):
    model[0].register_forward_hook(lambda module, inputs, output: output)


def tensor_hook(model):
    model[0].weight.register_hook(lambda gradient: gradient)


def hook_after_accumulation(model):
    model[0].weight.register_post_accumulate_grad_hook(lambda parameter: None)


def forward_of_the_instance(model):
    layer = model[0]
    layer.forward = lambda x: nn.functional.linear(x, 2 * layer.weight, layer.bias)


def buffer(model):
    model[0].register_buffer("scale", torch.ones(()))


def module_inside(model):
    model[0].adapter = nn.Linear(32, 4)


def shared_memory(model):
    model.append(nn.Linear(32, 64))
    model[3].weight = nn.Parameter(model[0].weight.detach())


def compiled(model):
    model[0] = torch.compile(model[0])


def compiled_in_place(model):
    model[0].compile(backend="eager")


def eight_bits(model):
    model[0].weight = nn.Parameter(model[0].weight.detach().to(torch.float8_e4m3fn), requires_grad=False)


def parametrization(model):
    nn.utils.parametrizations.weight_norm(model[0])


def subclass(model):
    class Special(nn.Linear):
        pass

    model[0] = Special(32, 64)


def integers(model):
    model[0].weight = nn.Parameter(torch.zeros(64, 32, dtype=torch.int8), requires_grad=False)


def test_parts_of_one_buffer_are_not_shared():
    model = nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 32))
    buffer = torch.randn(2, 64 * 32)
    for layer, part in zip(model, buffer, strict=True):
        layer.weight = nn.Parameter(part.view_as(layer.weight))
    ksmm.replace_linear(model, lambda columns, rows: [(1, rows, columns, 1)], modules="*")
    assert all(isinstance(layer, ksmm.KSLinear) for layer in model)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (shared_weight, r"0: its weight is shared with 3\.weight(?s:.)*3: its weight is shared with 0\.weight"),
        (shared_module, r"0: its weight is shared with 3\.weight"),
        (shared_memory, r"0: its weight lies in the same memory as 3\.weight"),
        (hook, r"0: it has hooks \(forward hooks\)"),
        (tensor_hook, r"0: it has hooks \(backward hooks on its weight\)"),
        (hook_after_accumulation, r"0: it has hooks \(post accumulate grad hooks on its weight\)"),
        (forward_of_the_instance, r"0: it has a forward of its own"),
        (buffer, r"0: it has buffers of its own \(scale\)"),
        (module_inside, r"0: it has modules of its own \(adapter\)"),
        (compiled, r"0\._orig_mod: torch\.compile has compiled it"),
        (parametrization, r"0: its parameters are parametrized"),
        (subclass, r"0: it is a Special"),
        (integers, r"0: its weight has dtype int8; KSLinear takes float32, float16, bfloat16, float64"),
        (eight_bits, r"0: its weight has dtype float8_e4m3fn"),
        (compiled_in_place, r"0: it is compiled"),
    ],
)
def test_what_cannot_be_replaced_is_refused_by_name_and_nothing_is_changed(spoil, reason):
    model = two_layers()
    spoil(model)
    before = list(model.modules())
    with pytest.raises(ValueError, match=reason):
        ksmm.replace_linear(model, small_chain)
    assert list(model.modules()) == before
    assert len(ksmm.replace_linear(model, small_chain, modules="2").replaced) == 1


def test_parameters_that_have_no_memory_yet_share_none():
    with FakeTensorMode():
        model = two_layers()
        assert len(ksmm.replace_linear(model, small_chain).replaced) == 2
    model = nn.Sequential(*two_layers(), nn.LazyConv2d(4, 3), nn.LazyLinear(7))
    assert len(ksmm.replace_linear(model, small_chain, exclude="4").replaced) == 2
    with pytest.raises(ValueError, match="4: it is a LazyLinear"):
        ksmm.replace_linear(model, small_chain, modules="4")


def test_tied_embeddings_are_refused_by_name():
    with pytest.raises(ValueError, match=r"lm_head: its weight is shared with transformer\.wte\.weight"):
        ksmm.replace_linear(gpt2()[0], small_chain)


def test_what_the_rule_leaves_dense_is_not_refused():
    model = gpt2()[0]
    report = ksmm.replace_linear(model, lambda n, m: None if m == 100 else small_chain(n, m))
    assert report.left == ("lm_head",) and len(report.replaced) == 8
    assert model.lm_head.weight is model.transformer.wte.weight


def test_a_parent_that_reads_the_weight_is_refused():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64), 1, enable_nested_tensor=False)
    with pytest.raises(ValueError, match=r"layers\.0\.linear1: its parent, a TransformerEncoderLayer, reads"):
        ksmm.replace_linear(model, small_chain)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda n, m: [(1, 2, 2, 1)], r"0: it is 32 -> 64, and the rule's chain \(1,2,2,1\) 2 -> 2"),
        (lambda n, m: [(1, 2, 2)], r"0: the rule has no chain for \(32, 64\)"),
        (lambda n, m: ksmm.monarch(n, m, 5), r"cannot have 5 blocks"),
    ],
)
def test_a_rule_whose_chain_does_not_fit_is_refused(rule, message):
    with pytest.raises(ValueError, match=message):
        ksmm.replace_linear(two_layers(), rule)


@pytest.mark.parametrize("modules", ["*.mlp", "nothing", re.compile("")])
def test_a_name_that_no_layer_has_is_an_error_that_lists_them(modules):
    with pytest.raises(ValueError, match=r"no linear layer has a name that matches .*; there are 0, 2"):
        ksmm.replace_linear(two_layers(), modules=modules)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"modules": ["0", "*.mlp"]}, r"matches '\*\.mlp' \(modules=\); there are 0, 2$"),
        ({"exclude": "lm_haed"}, r"matches 'lm_haed' \(exclude=\)"),
        ({"exclude": ["2", re.compile("[0-9]{2}")]}, r"matches '\[0-9\]\{2\}' \(exclude=\)"),
        ({"modules": "3", "exclude": "4"}, r"matches '3' \(modules=\), '4' \(exclude=\)"),
        ({"modules": "2", "exclude": "*"}, r"leaves no linear layer to replace; there are 0, 2$"),
        ({"modules": []}, r"leaves no linear layer to replace"),
    ],
)
def test_each_name_that_no_layer_has_is_an_error(names, message):
    with pytest.raises(ValueError, match=message):
        ksmm.replace_linear(two_layers(), small_chain, **names)


def test_layers_below_a_compiled_module_are_replaced():
    model = nn.Sequential(torch.compile(two_layers(), backend="eager"))
    x = torch.randn(3, 32)
    before = model(x)
    assert len(ksmm.replace_linear(model, small_chain).replaced) == 2
    assert not torch.allclose(model(x), before)


def test_parameters_in_memory_of_their_own_share_none():
    for device in ("cpu", "meta"):
        model = nn.Sequential(nn.Linear(32, 64, device=device), nn.Linear(64, 0, device=device), nn.Linear(0, 64))
        assert len(ksmm.replace_linear(model, small_chain, modules="0").replaced) == 1


def test_a_layer_alone_is_refused():
    with pytest.raises(ValueError, match="the model is itself a Linear"):
        ksmm.replace_linear(nn.Linear(32, 32))


def test_a_replaced_model_can_be_copied():
    model, x = vit()
    ksmm.replace_linear(model.eval(), small_chain)
    torch.testing.assert_close(first_output(copy.deepcopy(model), x), first_output(model, x))


def test_a_timm_model_where_there_is_timm():
    timm = pytest.importorskip("timm", exc_type=ImportError)
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=0).eval()
    report = ksmm.replace_linear(model, small_chain, modules="blocks.*")
    assert len(report.replaced) == 8
    with torch.no_grad():
        x = torch.randn(2, 3, 32, 32)
        torch.testing.assert_close(model(x), dense_equivalent(model)(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("names", [{"exclude": None}, {"modules": None}, {"modules": [3]}, {"modules": nn.Linear}])
def test_what_is_no_name_is_named(names):
    ((argument, given),) = names.items()
    message = f"{argument} is {re.escape(repr(given))}; it must be a glob or a compiled regular expression"
    with pytest.raises(TypeError, match=message):
        ksmm.replace_linear(two_layers(), small_chain, **names)


@pytest.mark.parametrize(
    ("implementation", "dtype", "reason"),
    [
        ("bmm_strided", torch.float32, r"0: implementation 'bmm_strided' cannot multiply pattern 1,16,8,4"),
        ("lazylinop", torch.float32, r"2: implementation 'lazylinop' cannot multiply"),
        ("kernel", torch.float64, r"0: implementation 'kernel' cannot multiply .* float64, on cpu"),
    ],
)
def test_an_implementation_that_does_not_multiply_a_chain_is_refused(implementation, dtype, reason):
    model = two_layers(dtype=dtype)
    before = list(model.modules())
    with pytest.raises(ValueError, match=reason):
        ksmm.replace_linear(model, small_chain, implementation=implementation)
    assert list(model.modules()) == before
    ksmm.replace_linear(two_layers(dtype=dtype, device="meta"), small_chain, implementation=implementation)
