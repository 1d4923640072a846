"""What a run does of all that there is: patterns, implementations, networks, and the jobs that they make."""

from __future__ import annotations

from collections.abc import Iterable

from check_config import ROOT, ConfigError


def chosen_implementations(names: str | list[str], key: str = "implementations") -> list[str]:
    """Names of registered implementations: those given, all for "all".

    Raises:
        ConfigError: one is not registered.
    """
    import ksmm

    return chosen(key, names, ksmm.implementations())


def chosen_networks(section: dict, device_type: str) -> list[str]:
    """Names of the jobs of the study networks: those given, all for "all".

    Of all, those that have something to measure in the modes and accuracy classes of the config.

    Raises:
        ConfigError: a name is not known, an implementation is not registered, or there is nothing to measure.
    """
    import ksmm
    from ksmm.networks.subjects import SUBJECTS, entries

    measured = section[device_type]
    chosen(f"networks.{device_type}.implementations", measured["implementations"], ksmm.implementations())
    names = chosen("networks.subjects", section["subjects"], SUBJECTS)
    kinds = [measured[key] for key in ("size", "accuracy_classes", "implementations", "modes")]
    empty = [name for name in names if not entries(name, *kinds)]
    if empty and (section["subjects"] != "all" or len(empty) == len(names)):
        raise ConfigError(
            f"config keys networks.{device_type}.modes = {measured['modes']} and accuracy_classes = "
            f"{measured['accuracy_classes']} leave nothing to measure of {', '.join(empty)}; add the mode eager"
        )
    return [name for name in names if name not in empty]


def chosen_patterns(section: dict, key: str) -> list:
    """The patterns (ksmm.Pattern) that a section such as cpu.patterns asks for, in the order of their list.

    Raises:
        ConfigError: the limits leave no pattern.
    """
    import ksmm
    from ksmm.pattern_lists import stratified_sample

    if section["explicit"] is not None:
        return [ksmm.Pattern.parse(text) for text in section["explicit"]]
    patterns = {"benchmark": ksmm.benchmark_patterns, "energy": ksmm.energy_patterns}[section["list"]]()
    max_nnz, max_features = section["max_nnz"], section["max_features"]
    kept = [
        pattern
        for pattern in patterns
        if (max_nnz is None or pattern.nnz <= max_nnz) and (max_features is None or max(pattern.shape) <= max_features)
    ]
    if not kept:
        raise ConfigError(
            f"config keys {key}.max_nnz = {max_nnz} and {key}.max_features = {max_features} leave none of the "
            f"{len(patterns)} patterns of the list {section['list']!r}; raise them"
        )
    return kept if section["sample"] is None else stratified_sample(kept, section["sample"])


def timing_jobs(patterns: list, patterns_per_job: int) -> dict[str, list[str]]:
    """Job name -> its patterns as "a,b,c,d": "1x48x48x1" for one, "<first>-to-<last>" for several."""
    jobs = {}
    for start in range(0, len(patterns), patterns_per_job):
        members = patterns[start : start + patterns_per_job]
        name = members[0].slug if len(members) == 1 else f"{members[0].slug}-to-{members[-1].slug}"
        jobs[name] = [str(pattern) for pattern in members]
    return jobs


def energy_jobs(config: dict, device_type: str) -> dict[str, list[str]]:
    """As timing_jobs, for the energy study; none where it is off, and a single one where there is no energy counter.

    That one writes down for every measurement why it is skipped, which takes a few seconds.

    Raises:
        ConfigError: the limits leave no pattern.
    """
    from ksmm.measure.energy_counter import reason_absent

    energy = config["energy"]
    if not energy["measure"]:
        return {}
    patterns = chosen_patterns(energy[device_type]["patterns"], f"energy.{device_type}.patterns")
    # on nodes of a cluster, which have what this machine need not have
    elsewhere = config["device"].startswith("cuda:")
    nothing_to_measure = not elsewhere and reason_absent(device_type) is not None
    return timing_jobs(patterns, len(patterns) if nothing_to_measure else energy["patterns_per_job"])


def chosen(key: str, names: str | list[str], known: Iterable[str]) -> list[str]:
    """Those of the known names that the config asks for, all of them for "all", in the order of the known.

    Raises:
        ConfigError: a name is not known.
    """
    known = list(known)
    unknown = [] if names == "all" else [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"config key {key} has {', '.join(map(repr, unknown))}; it must be all, or a list of some of "
            + (", ".join(known) or "none: there are none")
        )
    return [name for name in known if names == "all" or name in names]


def stems(pattern: str) -> list[str]:
    """Names without ending of the repository's files that match the pattern, sorted."""
    return sorted(path.stem for path in ROOT.glob(pattern))
