#!/usr/bin/env python3
"""Make the packages of the workspace, and lay those that may be published out in an empty folder as a workspace of its own.

    .ci/packages.py FOLDER [--allow-dirty]

Nothing in the folder comes from the clone but the packages, the versions of Cargo.lock and the profiles of Cargo.toml: what
builds there builds from the packages alone. The exit status is 1 when a package is too large, or lacks its README or a licence.
"""
import json, os, re, subprocess, sys, tarfile

# The limit of crates.io.
MOST_BYTES = 10 << 20


def main():
    folder, options = sys.argv[1], sys.argv[2:]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    os.makedirs(folder)
    cargo = os.environ.get("CARGO", "cargo")
    subprocess.run([cargo, "package", "-q", "--locked", "--workspace", "--no-verify", *options], cwd=root, check=True)
    asked = [cargo, "metadata", "--locked", "--no-deps", "--format-version", "1"]
    metadata = json.loads(subprocess.run(asked, cwd=root, check=True, stdout=subprocess.PIPE).stdout)
    packages = [package for package in metadata["packages"] if package["publish"] is None]
    failures, total = [], 0
    for package in packages:
        name = f"{package['name']}-{package['version']}"
        path = os.path.join(metadata["target_directory"], "package", f"{name}.crate")
        size = os.path.getsize(path)
        total += size
        if size > MOST_BYTES:
            failures.append(f"{name} has {size} bytes, more than {MOST_BYTES}")
        with tarfile.open(path) as archive:
            names = archive.getnames()
            for wanted in ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"]:
                if f"{name}/{wanted}" not in names:
                    failures.append(f"{name} has no {wanted}")
            for member in archive.getmembers():
                if not member.isfile() or not member.name.startswith(name + "/") or ".." in member.name.split("/"):
                    failures.append(f"{name} has {member.name}, which is not a file in its folder")
            archive.extractall(folder)
            # All files of packages have one time, long ago: cargo would take what an earlier folder gave for theirs.
            for member in archive.getmembers():
                os.utime(os.path.join(folder, member.name))
    lay_out(root, folder, packages)
    for failure in failures:
        print(failure)
    print(f"{len(packages)} packages, {total >> 10} KiB, {len(failures)} failures")
    return 1 if failures or not packages else 0


def lay_out(root, folder, packages):
    """A workspace of the packages, in which each stands for what a registry would give."""
    with open(os.path.join(root, "Cargo.toml")) as file:
        text = file.read()
    # Tables go on to the next one; comments before a header come with the table before it, which does not matter.
    tables = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    profiles = [table for table in tables if table.startswith("[profile.")]
    assert len(profiles) > 5, "the profiles are where they were"
    with open(os.path.join(folder, "Cargo.toml"), "w") as file:
        file.write('[workspace]\nresolver = "3"\nmembers = ["tracemill*"]\n\n[patch.crates-io]\n')
        for package in packages:
            file.write(f"{package['name']} = {{ path = \"{package['name']}-{package['version']}\" }}\n")
        file.write("\n" + "".join(profiles))
    with open(os.path.join(root, "Cargo.lock")) as file, open(os.path.join(folder, "Cargo.lock"), "w") as out:
        out.write(file.read())


if __name__ == "__main__":
    sys.exit(main())
