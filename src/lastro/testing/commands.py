"""Tests of commands inside an instance: their input, output, errors and exit codes."""

from __future__ import annotations

import os
import signal
import time

import pytest

from lastro import validity
from lastro.errors import CommandFailed, CommandTimeout
from lastro.platforms.base import Instance
from lastro.units import MIB

_SOON_S = 5.0  # the longest that an immediate event takes on a busy host

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ATTEMPTS = 3


class Commands:
    @pytest.mark.parametrize("code", [0, 1, 42, 255])
    def test_exit_codes_come_back(self, instance: Instance, code: int) -> None:
        assert instance.run(["sh", "-c", f"exit {code}"], check=False).returncode == code

    def test_a_failed_command_raises_with_its_last_words(self, instance: Instance) -> None:
        with pytest.raises(CommandFailed) as caught:
            instance.run(["sh", "-c", "echo the reason >&2; exit 3"])
        assert caught.value.returncode == 3
        assert "the reason" in caught.value.message

    def test_a_program_that_is_not_there_is_a_failed_command(self, instance: Instance) -> None:
        with pytest.raises(CommandFailed, match="no-such-program"):
            instance.run(["no-such-program"])

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_death_by_a_signal_counts_alike_everywhere(self, instance: Instance, number: signal.Signals) -> None:
        done = instance.run(["sh", "-c", f"kill -{number.value} $$"], check=False)
        assert done.returncode == 128 + number

    def test_output_and_errors_stay_apart(self, instance: Instance) -> None:
        done = instance.run(["sh", "-c", "echo out; echo err >&2; echo more"])
        assert (done.text, done.error_text) == ("out\nmore\n", "err\n")

    def test_a_megabyte_of_output_on_both_streams(self, instance: Instance) -> None:
        done = instance.run(["sh", "-c", f"head -c {MIB} /dev/zero; head -c {MIB} /dev/zero | tr '\\0' e >&2"])
        assert done.stdout == bytes(MIB)
        assert done.stderr == b"e" * MIB

    @pytest.mark.parametrize("size", [0, 1, MIB + 7])
    def test_binary_input_comes_back_unchanged(self, instance: Instance, size: int) -> None:
        data = os.urandom(size)
        assert instance.run(["cat"], stdin=data).stdout == data

    def test_files_go_in_and_come_out_unchanged(self, instance: Instance) -> None:
        data = bytes(range(256)) * 1000
        instance.run(["sh", "-c", "cat > /tmp/file"], stdin=data)
        assert instance.run(["cat", "/tmp/file"]).stdout == data

    def test_a_script_with_rights_mounts_what_commands_inside_see(self, instance: Instance) -> None:
        """Run a privileged script. Only a container with its own kernel may refuse: nothing there is privileged."""
        try:
            instance.run_with_rights("mount -t tmpfs tmpfs /mnt\ntouch /mnt/mounted\n")
        except CommandFailed:
            assert not instance.shares_kernel and not instance.takes_taps
        else:
            assert instance.run(["ls", "/mnt"]).text == "mounted\n"
            instance.run_with_rights("umount /mnt\n")

    def test_without_input_a_reader_sees_the_end_at_once(self, instance: Instance) -> None:
        assert instance.run(["cat"], timeout_s=10).stdout == b""

    def test_arguments_arrive_as_they_are(self, instance: Instance) -> None:
        words = ["a b", "", "'", '"', "$HOME", "*", "\\", "ü\n-", "--", "-c", ";false"]
        done = instance.run(["printf", "%s\\0", *words])
        assert done.stdout.decode().split("\0")[:-1] == words

    def test_environment_and_directory_are_fixed(self, instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LASTRO_TEST_LEAK", "1")
        variables = dict(line.partition("=")[::2] for line in instance.run(["env"]).text.splitlines())
        assert variables["PATH"] == PATH
        assert "LASTRO_TEST_LEAK" not in variables
        assert instance.run(["pwd"]).text == "/\n"
        assert instance.run(["id", "-u"]).text == "0\n"

    def test_a_background_command_is_read_and_stopped_and_one_that_takes_too_long_is_given_up(
        self, instance: Instance
    ) -> None:
        process = instance.spawn(["sh", "-c", "echo first; echo ready now; echo words >&2; exec sleep 86398"])
        assert process.wait_line("ready", 10) == "ready now\n"
        assert process.alive()
        with pytest.raises(CommandTimeout):
            process.wait_line("never", 0.2)
        started_s = time.monotonic()
        with pytest.raises(CommandTimeout):
            instance.run(["sleep", "86399"], timeout_s=0.5)
        assert time.monotonic() - started_s < 5
        assert instance.run(["echo", "meanwhile"]).text == "meanwhile\n"
        done = process.stop()
        assert not process.alive()
        assert (done.text, done.error_text) == ("first\nready now\n", "words\n")
        assert process.stop() is done

    def test_a_command_of_a_block_ends_with_it_inside(self, instance: Instance) -> None:
        listing = "grep -lxz '8639[5]' /proc/[0-9]*/cmdline 2>/dev/null || true"  # its own argument is another

        def running() -> list[str]:
            return instance.run(["sh", "-c", listing]).text.splitlines()

        sleeping = ["sh", "-c", "echo up; echo aside >&2; exec sleep 86395"]
        with instance.during(sleeping, "up", 10) as process:
            assert process.alive()
        with instance.during(sleeping, "aside", 10) as process:
            deadline_s = time.monotonic() + _SOON_S
            while not running() and time.monotonic() < deadline_s:  # the shell prints before it becomes `sleep`
                time.sleep(0.05)
            assert process.lines(0) == ["ready\n"] and len(running()) == 1, "its own words stay inside"
        assert not process.alive() and running() == []
        done = process.stop()
        assert (done.text, done.error_text) == ("ready\nup\n", "aside\n")

    def test_a_command_that_should_serve_and_fails_says_why(self, instance: Instance) -> None:
        failing = ["sh", "-c", "echo broken >&2; exit 5"]
        with pytest.raises(CommandFailed, match="broken"), instance.during(failing, "up"):
            pass

    def test_a_measuring_command_keeps_its_output_inside_until_it_has_ended(self, instance: Instance) -> None:
        """Print a line every 10 ms: it must not wake a thread outside, and all output must come back complete.

        The test is tried several times, because a daemon may have other work."""
        script = "for i in 0 1 2 3 4 5 6 7 8 9; do for j in 0 1 2 3 4 5 6 7 8 9; do echo $i$j; sleep 0.01; done; done"
        apparatus = instance.testbed.apparatus
        for _ in range(_ATTEMPTS):
            apparatus.drain()
            measured = instance.measure(["sh", "-c", f"{script}; echo aside >&2; exit 3"], check=False)
            (window,) = apparatus.drain()
            if not validity.apparatus_reasons([window]):
                break
        assert measured.done.text == "".join(f"{number:02}\n" for number in range(100))
        assert (measured.done.error_text, measured.done.returncode) == ("aside\n", 3)
        assert 1.0 <= measured.done.duration_s <= window.elapsed_s + measured.message_s
        assert validity.apparatus_reasons([window]) == []
        with pytest.raises(CommandFailed, match="broken"):
            instance.measure(["sh", "-c", "echo broken >&2; exit 5"])
        with pytest.raises(CommandTimeout, match="sleep 86392"):
            instance.measure(["sleep", "86392"], timeout_s=0.3)

    def test_a_command_that_streams_is_seen(self, instance: Instance) -> None:
        """Stream 100 lines a second out of the instance, which the witness of the apparatus must detect."""
        apparatus = instance.testbed.apparatus
        process = instance.spawn(
            ["perl", "-e", "$| = 1; for (1..3000) { print qq(line\n); select undef, undef, undef, 0.01 }"]
        )
        process.wait_line("line", 10)
        apparatus.drain()
        instance.measure(["sleep", "4"])
        process.stop()
        (reason,) = validity.apparatus_reasons(apparatus.drain())
        assert "the apparatus" in reason

    def test_files_of_measurements_are_in_memory(self, instance: Instance) -> None:
        file_system = instance.run(["stat", "-f", "-c", "%T", instance.memory_dir]).text.strip()
        assert file_system in ("tmpfs", "ramfs")

    def test_waiting_for_a_line_of_a_command_that_has_failed_raises(self, instance: Instance) -> None:
        with pytest.raises(CommandFailed, match="broken"):
            instance.spawn(["sh", "-c", "echo broken >&2; exit 5"]).wait_line("ready", 10)
