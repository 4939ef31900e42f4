# SPDX-License-Identifier: GPL-2.0
"""Tests of check.py."""

import re
import tempfile
import unittest
from itertools import combinations
from pathlib import Path
from unittest import mock

import check
import report

PROJECT = Path(__file__).resolve().parents[3]
LISTING = """\
0000 <kernel::sync::arc::drop>:
       4: e8                    call 9
          0000000000000005:  R_X86_64_PLT32  core::panicking::panic-0x4
0010 <kernel::iomap::iter::next>:
      14: e8                    call 19
          0000000000000015:  R_X86_64_PLT32  core::panicking::panic_fmt-0x4
          0000000000000025:  R_X86_64_PLT32  core::option::unwrap_failed-0x4
"""
C = "EXPORT_SYMBOL_GPL(iomap_dio_rw);\nEXPORT_SYMBOL_GPL(iomap_dio_complete);\n"
RUST = """\
#[cfg_attr(not(CONFIG_IOMAP_DIO_COMPARE), export)]
/// Documented.
pub unsafe extern "C" fn rust_iomap_dio_rw(
#[export]
#[inline]
// A comment
// and more of it
pub unsafe extern "C" fn iomap_dio_complete(
"""


class Sources(unittest.TestCase):
    def place(self, files: dict[str, str]) -> check.Place:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check.Place(folder, folder, folder, "0")

    def test_unsafe(self) -> None:
        name = "fs/iomap/direct_io/simple.rs"
        self.assertEqual(check.unsafe(self.place({name: "//! Doc.\n\n#![forbid(unsafe_code)]\n"})), "1 files forbid it")
        with self.assertRaisesRegex(check.Wrong, f"^{name} does not forbid"):
            check.unsafe(self.place({name: "// #![forbid(unsafe_code)]\n"}))

    def test_without_files(self) -> None:
        for name in ("rustfmt", "checkpatch", "unsafe", "clippy"):
            with self.subTest(name), self.assertRaisesRegex(check.Wrong, r"^there is no \*"), \
                    mock.patch.object(check, "output", return_value="\ntotal: 0 errors"):
                check.CHECKS[name](self.place({"check-rust/build.log": ""}))

    def test_flags(self) -> None:
        known = (check.HERE / "known-flags").read_text().splitlines()
        lines = [f"#define {line.split()[0]}\t1" for line in known if line.startswith("IO")]
        text = "\n".join(lines) + "\n#define IOMAP_X(a) a\n"
        self.assertEqual(check.flags(self.place({"include/linux/iomap.h": text, "include/linux/fs.h": ""})),
                         f"{len(lines)} names")
        for iomap, fs, said in ((text, "#define IOCB_NEW 1\n", "IOCB_NEW is new in include/linux/fs.h"),
                                (text.replace("IOMAP_HOLE", "IOMAP_HALO"), "", "IOMAP_HALO is new"),
                                (text.replace("#define IOMAP_HOLE", "//"), "", "IOMAP_HOLE is in .*, but no longer")):
            with self.assertRaisesRegex(check.Wrong, said):
                check.flags(self.place({"include/linux/iomap.h": iomap, "include/linux/fs.h": fs}))

    def test_clippy(self) -> None:
        log = "warning: of others\n  --> rust/other.rs:1\nwarning: unused\n  --> /tree/fs/iomap/direct_io.rs:10:2\n"
        at = self.place({"fs/iomap/direct_io.rs": "", "check-rust/build.log": log})
        with self.assertRaisesRegex(check.Wrong, "^warning: unused --> /tree/fs/iomap/direct_io.rs:10:2, see"):
            check.clippy(at)
        macro = "warning: nested\n  --> rust/other.rs:1\n  ::: /tree/fs/iomap/direct_io.rs:10:2\n"
        (at.build / "check-rust/build.log").write_text(macro)
        with self.assertRaisesRegex(check.Wrong, "^warning: nested ::: /tree/fs/iomap/direct_io.rs:10:2, see"):
            check.clippy(at)
        (at.build / "check-rust/build.log").write_text(log[:40])
        self.assertEqual(check.clippy(at), "CLIPPY=1 W=1")


class OurFiles(unittest.TestCase):
    def test_all_are_known(self) -> None:
        """A file that moves out of sight is not checked, and nobody is told."""
        patch = next((PROJECT / "patches").glob("*-MAINTAINERS-*.patch")).read_text()
        maintained = tuple(re.findall(r"^\+F:\t(.*?)\*?$", patch, re.MULTILINE))
        for path in (PROJECT / "rust/kernel").rglob("*.rs"):
            name = str(path.relative_to(PROJECT))
            words = name.removeprefix("rust/kernel/").removesuffix(".rs").split("/")
            with self.subTest(name):
                self.assertTrue(name.startswith(maintained))
                self.assertRegex("::".join(["kernel", *words, ""]), check.OURS)
                self.assertRegex("_".join(["rust_doctest_kernel", *words, ""]), report.EXAMPLES)


    def test_kinds_differ(self) -> None:
        """Of any two kinds of request, some function has one in an arm of a match without the other."""
        text = (PROJECT / "fs/iomap/direct_io/dio.rs").read_text()
        kinds = re.findall(r"^    (\w+)", text.partition("enum Kind {")[2].partition("\n}")[0], re.MULTILINE)
        arms = [set(re.findall(r"Kind::(\w+)", arm)) for arm in re.findall(r"((?:\|?\s*Kind::\w+[^|=]*)+)=>", text)]
        self.assertGreater(len(kinds), 1)
        for pair in combinations(kinds, 2):
            self.assertIn(1, [len(arm & set(pair)) for arm in arms], pair)


class Objects(unittest.TestCase):
    def test_panic_in_a_function_of_ours(self) -> None:
        n, found = check.references(LISTING)
        self.assertEqual(n, 4)
        self.assertEqual(found, [f"core::{name}-0x4 in <kernel::iomap::iter::next>:"
                                 for name in ("panicking::panic_fmt", "option::unwrap_failed")])

    def test_exports(self) -> None:
        n, wrong = check.not_exported(C, RUST, "__export_symbol_iomap_dio_rw\n__export_symbol_iomap_dio_complete2\n")
        self.assertEqual(n, 2)
        self.assertEqual(wrong, ["iomap_dio_complete is not exported", "iomap_dio_complete has no #[export]"])
