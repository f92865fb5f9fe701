#!/usr/bin/env python3
"""What a release says of itself: the dependencies of a program with their licences, and archives of the same bytes each time.

    papers.py licences PACKAGE FEATURES TARGET    texts of the licences of all that is linked, on stdout
    papers.py sbom PACKAGE FEATURES TARGET        a bill of materials in CycloneDX 1.5, as JSON, on stdout
    papers.py tar FOLDER FILE.tar.gz              a folder as an archive: sorted, without owners, with SOURCE_DATE_EPOCH
    papers.py rpm FOLDER VERSION                  the manifest for cargo-generate-rpm that packs all files of a folder, on stdout

Run in the clone. Needs Python 3.9 and cargo.
"""
import gzip, hashlib, json, os, subprocess, sys, tarfile, uuid


def linked(package, features, target):
    """The packages that are linked into a program, by name and version."""
    asked = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)
    known = {(one["name"], one["version"]): one for one in metadata["packages"]}
    tree = ["cargo", "tree", "--locked", "--package", package, "--features", features, "--target", target]
    tree += ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    lines = subprocess.run(tree, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    names = {(words[0], words[1].lstrip("v")) for words in (line.split() for line in lines) if len(words) > 1}
    if not names:
        sys.exit(f"{package} depends on nothing")
    return [known[name] for name in sorted(names)]


def is_licence(name):
    stem = name.upper()
    return stem.startswith(("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"))


def licences(packages):
    """A list of all packages, and each text once, after the names of the packages that have it."""
    texts = {}
    print("tracemill is linked with these packages. The texts of their licences follow.")
    print("It also holds the standard library of Rust (MIT OR Apache-2.0, https://www.rust-lang.org), and a static program")
    print("musl (MIT, Copyright (c) 2005-2020 Rich Felker, et al., https://musl.libc.org).\n")
    for package in packages:
        print(f"{package['name']} {package['version']}: {package['license']}")
        folder = os.path.dirname(package["manifest_path"])
        for name in sorted(filter(is_licence, os.listdir(folder))):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    texts.setdefault(file.read().strip(), []).append(f"{package['name']} {package['version']}")
    for text, names in texts.items():
        print(f"\n{'-' * 80}\n{', '.join(names)}\n{'-' * 80}\n\n{text}")


def sbom(packages, features, target):
    """Times and random numbers are left out, so that it is the same each time."""
    with open("Cargo.lock") as file:
        lock = file.read()
    checksums = {}
    for entry in lock.split("[[package]]")[1:]:
        fields = dict(line.split(" = ", 1) for line in entry.strip().splitlines() if " = " in line)
        checksums[fields["name"].strip('"'), fields["version"].strip('"')] = fields.get("checksum", "").strip('"')

    def component(package):
        name, version = package["name"], package["version"]
        found = {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:cargo/{name}@{version}",
            "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
        }
        if checksums.get((name, version)):
            found["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
        return found

    # All packages of the workspace have one version.
    version = next(package["version"] for package in packages if package["name"].startswith("tracemill"))
    what = f"{version} {features} {target} {hashlib.sha256(lock.encode()).hexdigest()}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, what)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "tracemill", "version": version}},
        "components": [component(package) for package in packages],
    }
    print(json.dumps(document, indent=1))


def tar(folder, to):
    """Names in their order; owners, times and modes do not come from this machine."""
    time = int(os.environ["SOURCE_DATE_EPOCH"])

    def plain(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = time
        is_program = member.isdir() or bool(member.mode & 0o100)
        member.mode = 0o755 if is_program else 0o644
        return member

    with open(to, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=time) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            # `add` sorts the names of a folder.
            archive.add(folder, arcname=os.path.basename(folder.rstrip("/")), filter=plain)


def rpm(folder, version):
    """A manifest beside the folder: paths in it are relative to where it stands."""
    manifest = [
        ("name", "tracemill"),
        ("version", version),
        ("license", "MIT OR Apache-2.0"),
        ("description", "Reads, prints, measures and converts execution traces"),
    ]
    print("[package]")
    for key, value in manifest:
        print(f"{key} = {json.dumps(value)}")
    print("[package.metadata.generate-rpm]\nassets = [")
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            source = os.path.relpath(path, os.path.dirname(folder))
            to = "/" + os.path.relpath(path, folder)
            mode = "755" if os.stat(path).st_mode & 0o100 else "644"
            print(f"    {{ source = {json.dumps(source)}, dest = {json.dumps(to)}, mode = {json.dumps(mode)} }},")
    print("]")


def main():
    command, *words = sys.argv[1:] or [""]
    if command == "licences" and len(words) == 3:
        licences(linked(*words))
    elif command == "sbom" and len(words) == 3:
        sbom(linked(*words), *words[1:])
    elif command == "tar" and len(words) == 2:
        tar(*words)
    elif command == "rpm" and len(words) == 2:
        rpm(*words)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
