"""What Linux reports about itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lockfast.platforms import linux

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /mnt/share rw,relatime shared:5 - nfs4 server:/export rw
31 22 0:41 / /mnt/my\\040drive rw - fuse.sshfs sshfs#host: rw
32 30 254:1 / /mnt/share/local rw - xfs /dev/vdb rw
33 22 0:42 / /mnt/over rw - ext4 /dev/vdc rw
34 22 0:43 / /mnt/over rw master:3 - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/down", "nfs4"),
        ("/mnt/my drive/locks", "fuse.sshfs"),
        ("/mnt/over", "cifs"),
    ],
)
def test_a_network_or_fuse_file_system_reaches_other_machines(directory, kind):
    found = linux.file_system(Path(directory), mounts=MOUNTS)

    assert found == kind
    assert linux.is_shared_file_system(found)


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/", "ext4"),
        ("/home", "ext4"),
        ("/mnt", "ext4"),
        ("/mnt/shared", "ext4"),
        ("/mnt/share/local/x", "xfs"),
    ],
)
def test_the_longest_mount_point_that_is_a_parent_decides(directory, kind):
    """A directory whose name merely begins with the same characters is not below it."""
    found = linux.file_system(Path(directory), mounts=MOUNTS)

    assert found == kind
    assert not linux.is_shared_file_system(found)


def test_the_clock_counts_the_time_in_which_the_machine_sleeps():
    """The clock is CLOCK_BOOTTIME, without a Python wrapper: it is read a dozen times per lock."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)

    assert linux.now() - before < 60
    assert linux.now() >= before
    assert linux.now.func is time.clock_gettime
