"""A stripe over a real ``LocalCluster``: workers and schedulers die, and the file is equal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import howdah
import pytest
from conftest import Site, make_big

distributed: Any = pytest.importorskip("distributed")

from howdah.dask import StripeError, _known, _Stripe, stripe  # noqa: E402

MIB = 1 << 20
SIZE_MIB = 32
LEASE = 4 * MIB


@pytest.fixture
def options(site: Site) -> list[str]:
    """How a mover reaches the server; 24 Mbit/s each, so that something can happen meanwhile."""
    return [
        "--identity",
        str(site.config_dir / "id_ed25519.pem"),
        "--known-hosts",
        str(site.config_dir / "known_hosts"),
        "--accept-new",
        "--limit",
        "24mbit",
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Any]:
    with new_cluster(tmp_path) as made:
        yield made


def new_cluster(directory: Path) -> Any:
    return distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, local_directory=str(directory)
    )



def records(site: Site) -> list[Path]:
    return list(site.files.glob(".big.*.howdah-plan/*/record-*"))


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 100
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_whole(site: Site) -> bool:
    left = [path.name for path in site.files.iterdir() if path.name != "big"]
    assert left == []
    return (site.files / "big").read_bytes() == (site.root / "big").read_bytes()


def test_a_worker_that_is_killed_costs_a_lease(site: Site, cluster: Any, options: list[str]) -> None:
    make_big(site.root / "big", SIZE_MIB)
    with distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def kill() -> None:
            wait_for(lambda: len(records(site)) >= 1)
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        done = stripe(client, site.url("big"), site.files / "big", lease=LEASE, options=options)
        killer.join()
    assert is_whole(site)
    assert done.bytes == SIZE_MIB * MIB
    assert re.fullmatch("[0-9a-f]{64}", done.blake3)
    assert done.moved_bytes <= done.bytes
    assert done.lost_bytes <= 2 * LEASE


def test_a_scheduler_that_dies_is_gone_on_without(site: Site, tmp_path: Path, options: list[str]) -> None:
    make_big(site.root / "big", SIZE_MIB)
    destination = site.files / "big"
    failed: list[BaseException] = []
    cluster = new_cluster(tmp_path / "one")
    client = distributed.Client(cluster)

    def first() -> None:
        try:
            stripe(client, site.url("big"), destination, lease=LEASE, options=options)
        except BaseException as error:
            failed.append(error)

    running = threading.Thread(target=first)
    running.start()
    wait_for(lambda: len(records(site)) >= 2)
    cluster.close()
    client.close()
    running.join(timeout=60)
    assert not running.is_alive() and failed and not destination.exists()
    before = len(records(site))
    with new_cluster(tmp_path / "two") as again, distributed.Client(again) as client:
        done = stripe(client, site.url("big"), destination, lease=LEASE, options=options)
    assert is_whole(site)
    # What has a record does not come again.
    assert done.moved_bytes <= (done.leases - before) * LEASE


def test_a_lease_that_hangs_is_taken_over(site: Site, cluster: Any, command: Path, options: list[str]) -> None:
    make_big(site.root / "big", 4)
    # The first one that moves lease 0 does nothing until the file is there.
    slow = site.files.parent / "slow"
    slow.write_text(
        f"""#!/bin/sh
echo "$*" >>"{slow}.said"
case "$*" in *"--lease 0 "*) mkdir "{slow}.once" 2>/dev/null && until [ -e "{site.files}/big" ]; do sleep 0.1; done ;; esac
exec "{command}" "$@"
"""
    )
    slow.chmod(0o755)
    with distributed.Client(cluster) as client:
        done = stripe(
            client, site.url("big"), site.files / "big", lease="1MiB", options=options, command=str(slow), steal_after=1.0
        )
    assert (slow.parent / "slow.once").exists() and is_whole(site)
    assert done.leases == 4
    # Three move at the same time, and are one flow.
    said = (slow.parent / "slow.said").read_text().splitlines()
    assert all(line.endswith("--share 1/3") for line in said if line.startswith("cp "))


@pytest.mark.parametrize(
    ("options", "share", "said"),
    [
        (["--limit", "1gbit"], 8, ["--share", "1/8"]),
        (["--policy", "background"], None, []),
        (["--rate=1gbit"], None, []),
        # Who asks for both hears from the command that they clash.
        (["--policy", "background"], 8, ["--share", "1/8"]),
    ],
)
def test_a_share_is_of_the_policy_that_shares(options: list[str], share: int | None, said: list[str]) -> None:
    one = _Stripe.__new__(_Stripe)
    one.options, one.share = options, share
    assert one._share() == said


def make_tree(tree: Path) -> None:
    """40 small files, which are four leases of 1 MiB, a large one, which is five, and a link."""
    (tree / "sub" / "empty").mkdir(parents=True)
    for number in range(40):
        (tree / "sub" / f"file{number}").write_bytes(bytes([number]) * 100_000)
    make_big(tree / "large", 5)
    (tree / "link").symlink_to("sub")
    os.utime(tree / "sub", ns=(10**18, 10**18))


def look(top: Path) -> dict[str, object]:
    """What a copy keeps."""
    return {
        str(path.relative_to(top)): os.readlink(path)
        if path.is_symlink()
        else (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in [top, *top.rglob("*")]
    }


def test_a_directory_is_moved_with_a_worker_that_is_killed(site: Site, cluster: Any, options: list[str]) -> None:
    tree = site.root / "tree"
    make_tree(tree)
    with distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def kill() -> None:
            wait_for(lambda: len(list(site.files.glob(".tree.*.howdah-plan/*/record-*"))) >= 1)
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        done = stripe(client, site.url("tree"), site.files / "tree", archive=True, lease="1MiB", options=options)
        killer.join()
    assert done.bytes == 40 * 100_000 + 5 * MIB and done.leases == 4 + 5
    assert [path.name for path in site.files.iterdir()] == ["tree"]

    assert look(site.files / "tree") == look(tree)


def test_only_those_with_the_resource_move(site: Site, tmp_path: Path, options: list[str]) -> None:
    make_big(site.root / "big", 3)
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            resources={"DTN": 1},
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        done = stripe(client, site.url("big"), site.files / "big", movers=1, lease="1MiB", options=options)
    assert done.leases == 3 and is_whole(site)


def test_what_cannot_be_done_is_said(site: Site, cluster: Any, options: list[str]) -> None:
    make_big(site.root / "big", 3)
    with distributed.Client(cluster) as client:
        with pytest.raises(StripeError, match="none has this howdah"):
            stripe(client, site.url("big"), site.files / "big", options=options, command="/none/howdah")
        with pytest.raises(StripeError) as missing:
            stripe(client, site.url("none"), site.files / "big", options=options)
        assert missing.value.code == 3
        done = stripe(client, site.url("big"), site.files / "big", lease="1MiB", options=options)
        assert done.leases == 3
        # The source has changed since it was planned.
        plan = site.files / "late.plan"
        make_plan = [*options, "--lease", "1MiB"]
        howdah_plan(client, site.url("big"), site.files / "late", plan, make_plan)
        make_big(site.root / "big", 3)
        with pytest.raises(StripeError, match="plan anew") as changed:
            stripe(client, site.url("big"), site.files / "late", plan=plan, options=options)
        assert changed.value.code == howdah.SourceChangedError.exit_code
        assert not (site.files / "late").exists()


def howdah_plan(client: Any, source: str, destination: Path, plan: Path, more: list[str]) -> None:
    from howdah.dask import _plan

    code, _, said = client.submit(_plan, None, source, str(destination), str(plan), more).result()
    assert code == 0, said


def test_a_file_is_pushed_to_a_server(site: Site, cluster: Any, options: list[str]) -> None:
    make_big(site.files / "big", SIZE_MIB)
    with distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def kill() -> None:
            wait_for(lambda: len(list(site.root.glob(".big.*.howdah-plan/*/record-*"))) >= 1)
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        done = stripe(client, str(site.files / "big"), site.url("big"), lease=LEASE, options=options)
        killer.join()
    assert (site.files / "big").read_bytes() == (site.root / "big").read_bytes()
    assert [path.name for path in site.files.iterdir()] == ["big"]
    assert not list(site.root.glob(".big.*.howdah-plan"))
    assert done.bytes == SIZE_MIB * MIB
    assert re.fullmatch("[0-9a-f]{64}", done.blake3)


def test_a_directory_is_pushed_with_a_worker_that_is_killed(site: Site, cluster: Any, options: list[str]) -> None:
    make_tree(site.files / "tree")
    with distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def kill() -> None:
            wait_for(lambda: len(list(site.root.glob(".tree.*.howdah-plan/*/record-*"))) >= 1)
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        done = stripe(client, str(site.files / "tree"), site.url("tree"), archive=True, lease="1MiB", options=options)
        killer.join()
    assert done.bytes == 40 * 100_000 + 5 * MIB and done.leases == 4 + 5
    assert re.fullmatch("[0-9a-f]{64}", done.blake3)
    assert [path.name for path in site.files.iterdir()] == ["tree"]
    assert [path.name for path in site.root.iterdir()] == ["tree"]
    assert look(site.root / "tree") == look(site.files / "tree")


def test_a_plan_of_something_else_is_not_gone_on_with(site: Site, cluster: Any, options: list[str]) -> None:
    """Left by a call that was interrupted: what it is of would come under the name that is asked for now."""
    for name in ("one", "two"):
        make_big(site.root / name, 2)
        make_big(site.files / name, 2)
    with distributed.Client(cluster) as client:
        planned = [*options, "--lease", "1MiB"]
        howdah_plan(client, site.url("one"), site.files / "target", site.files / "target.plan", planned)
        with pytest.raises(StripeError, match=r"target\.plan is the plan of .*/one to .*remove it"):
            stripe(client, site.url("two"), site.files / "target", options=options)
        # It is still gone on with by who means it, however that is written.
        address = site.url("one").replace("howdah://", "HOWDAH://".lower())
        stripe(client, address, str(site.files) + "/./target", options=options)
        assert (site.files / "target").read_bytes() == (site.root / "one").read_bytes()
        # Where the plan of a file that is pushed stands says nothing of where it goes.
        code, _, said = client.submit(
            _command, ["plan", str(site.files / "two"), site.url("there"), "-o", str(site.files / "two.plan"), *planned]
        ).result()
        assert code == 0, said
        with pytest.raises(StripeError, match="not of .* to .*elsewhere"):
            stripe(client, str(site.files / "two"), site.url("elsewhere"), options=options)
        done = stripe(client, str(site.files / "two"), site.url("there"), options=options)
        assert done.destination == site.url("there")
        # Of a plan that nothing is left of.
        howdah_plan(client, site.url("one"), site.files / "gone", site.files / "gone.plan", planned)
        shutil.rmtree(next(site.files.glob(".gone.*")))
        with pytest.raises(StripeError, match=r"to begin anew, remove .*gone\.plan"):
            stripe(client, site.url("one"), site.files / "gone", options=options)
    assert (site.root / "there").read_bytes() == (site.files / "two").read_bytes()
    assert not (site.root / "elsewhere").exists()


def test_workers_without_howdah_or_with_another_one_are_left_out(
    site: Site, cluster: Any, command: Path, options: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    make_big(site.root / "big", 4)
    # What each worker has is decided by its number.
    odd = site.files.parent / "odd"
    odd.write_text(
        f"""#!/bin/sh
[ -e "{odd}.$PPID.none" ] && exit 127
[ "$1" = --version ] && [ -e "{odd}.$PPID.old" ] && echo "howdah 0.0.1" && exit
echo "$PPID $*" >>"{odd}.said"
exec "{command}" "$@"
"""
    )
    odd.chmod(0o755)
    with distributed.Client(cluster) as client:
        # In the order in which they are asked: the first one's version is the one that counts.
        addresses = list(client.scheduler_info(n_workers=-1)["workers"])
        pids = client.run(os.getpid)
        for address, kind in zip(addresses[1:], ("none", "old"), strict=True):
            Path(f"{odd}.{pids[address]}.{kind}").touch()
        done = stripe(client, site.url("big"), site.files / "big", lease="1MiB", options=options, command=str(odd))
    assert done.leases == 4 and is_whole(site)
    said = Path(f"{odd}.said").read_text().splitlines()
    assert {line.split()[0] for line in said} == {str(pids[addresses[0]])}
    warnings = [record.getMessage() for record in caplog.records if record.name == "howdah"]
    assert any(addresses[1] in line and "left out" in line for line in warnings)
    assert any(addresses[2] in line and "it has howdah 0.0.1, others have" in line for line in warnings)


def _command(arguments: list[str]) -> tuple[int, str, str]:
    from howdah._command import run

    return run(None, arguments)


def test_an_existing_directory_gets_the_file_below_it(site: Site, cluster: Any, options: list[str], monkeypatch: Any) -> None:
    """And a relative source is that of the caller, not of workers."""
    odd = "a b\n'c"
    make_big(site.root / odd, 1)
    (site.files / "into").mkdir()
    monkeypatch.chdir(site.files / "into")
    with distributed.Client(cluster) as client:
        done = stripe(client, site.url(odd), site.files / "into", options=options)
        assert (done.destination, done.bytes) == (str(site.files / "into" / odd), MIB)
        assert (site.files / "into" / odd).read_bytes() == (site.root / odd).read_bytes()
        stripe(client, Path(odd), site.url("back"), options=options)
    assert (site.root / "back").read_bytes() == (site.root / odd).read_bytes()
    assert [path.name for path in (site.files / "into").iterdir()] == [odd]


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ("movers", {"movers": 0}),
        ("movers", {"movers": "tcp://127.0.0.1:1"}),
        ("movers", {"movers": 1.5}),
        ("and so is", {"dst": "host:there"}),
        ("options is a list", {"options": "--limit 1gbit"}),
        ("distributed.Client", {"client": None}),
        ("power of two", {"lease": "3MiB"}),
        ("not a size", {"lease": "much"}),
    ],
)
def test_what_makes_no_sense_is_said_at_once(site: Site, said: str, given: dict[str, Any], options: list[str]) -> None:
    make_big(site.root / "big", 1)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        call: dict[str, Any] = {"client": client, "src": site.url("big"), "dst": site.files / "big", "options": options, **given}
        with pytest.raises(StripeError, match=said) as caught:
            stripe(**call)
        assert caught.value.code == 2
        client.close()
        with pytest.raises(StripeError, match="client is closed"):
            stripe(client, site.url("big"), site.files / "big")
    assert list(site.files.iterdir()) == []


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("howdah://h/x", "howdah://H:4433/x/", True),
        ("howdah://[::1]/x", "howdah://[::1]:4433/x", True),
        ("howdah://h/x", "howdah://h:4434/x", False),
        ("h:x", "ssh://h:22/~/x", True),
        ("u@h:/x", "ssh://u@h/x", True),
        ("h:~/x", "h:x", True),
        ("h:/x", "h:x", False),
        ("h:", "ssh://h/~", True),
        ("a@h:x", "b@h:x", False),
        ("/a/b/", "/a/b", True),
        ("/a:b", "a:b", False),
    ],
)
def test_a_place_is_known_however_it_is_written(one: str, other: str, is_same: bool) -> None:
    assert (_known(one) == _known(other)) == is_same
