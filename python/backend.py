"""A PEP 517 back end for this one pure package: it needs no package and no network. `python3 backend.py FOLDER` builds the wheel."""

import base64
import hashlib
import os
import re
import sys
import zipfile

_HERE = os.path.dirname(os.path.abspath(__file__))
_TIME = (1980, 1, 1, 0, 0, 0)  # of all files, so that equal sources give equal wheels


def _read(name):
    with open(os.path.join(_HERE, name), encoding="utf-8") as f:
        return f.read()


def _project():
    """The [project] table's plain strings, and the tables of entry points as their lines."""
    text = _read("pyproject.toml")
    values = dict(re.findall(r'^([a-z-]+) = "(.*)"$', text.partition("[project]")[2].partition("\n[")[0], re.MULTILINE))
    points = re.findall(r'^\[project\.entry-points\."(.+?)"\]\n((?:[^\[\n]+\n?)+)', text, re.MULTILINE)
    return values, {group: re.findall(r'^(\S+) = "(.+)"$', lines, re.MULTILINE) for group, lines in points}


def _files():
    """The wheel's files by name, without RECORD."""
    project, points = _project()
    name, version = project["name"], project["version"]
    files = {}
    package = os.path.join(_HERE, name)
    for file in sorted(os.listdir(package)):
        if file.endswith(".py"):
            files[f"{name}/{file}"] = _read(os.path.join(name, file))
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {project['description']}\n"
        f"Requires-Python: {project['requires-python']}\nLicense: Apache-2.0\n"
        f"Description-Content-Type: text/markdown\n\n{_read('README.md')}")
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: kernhes\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = "\n".join(
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in lines) for group, lines in points.items())
    return f"{name}-{version}", info, files


def _hash(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns its name."""
    name, info, files = _files()
    record = "".join(f"{path},{_hash(text.encode())},{len(text.encode())}\n" for path, text in files.items())
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    wheel = f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as z:
        for path, text in files.items():
            entry = zipfile.ZipInfo(path, _TIME)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, text)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("kernhes is built from a checkout")


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
