"""Where files are: on this machine, or behind a URL of any kind that fsspec knows (s3, gs, http, hf, …).

    RemoteFile   a file behind a URL: its size, its version, and any bytes of it, asked for again where a line breaks
    fetch        all of it, as a file here
    RangedFile   a file here that is filled as it is read, for formats of which parts are read
    find_files   the files of a folder
    fetch_member an image of a shard (a tar of images), as a file here
    fetch_tree   files of a folder or table, as a folder here
    find_here    the folder of a model, which may be on a hub

What is fetched lies in a cache of limited size (`cache.py`). Only text that somebody typed, or that stands in a list
which somebody named, is ever taken for a URL: never a `Path`, never anything that is written in an image.
"""

from saccade.places.fetching import Copy, fetch, fetch_tree
from saccade.places.hub import fetch_from_hub, find_here, hub_name_of, is_hub_name, send_to_hub
from saccade.places.members import Member, fetch_member, fetch_table, find_member, origin_of, split_member
from saccade.places.ranged import Ranged, RangedFile
from saccade.places.remote import (
    RemoteFile,
    UnreachableError,
    find_files,
    is_folder,
    is_url,
    name_of,
    parent_of,
    url_within,
)

__all__ = [
    "Copy",
    "Member",
    "Ranged",
    "RangedFile",
    "RemoteFile",
    "UnreachableError",
    "fetch",
    "fetch_from_hub",
    "fetch_member",
    "fetch_table",
    "fetch_tree",
    "find_files",
    "find_here",
    "find_member",
    "hub_name_of",
    "is_folder",
    "is_hub_name",
    "is_url",
    "name_of",
    "origin_of",
    "parent_of",
    "send_to_hub",
    "split_member",
    "url_within",
]
