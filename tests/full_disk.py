"""A disk without room."""

import resource


class FullDisk:
    """No file can become larger than `room` bytes: the system refuses it as it refuses to write to a full disk."""

    def __init__(self, room: int):
        self.room = room

    def __enter__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, self.before[1]))

    def __exit__(self, *_) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)
