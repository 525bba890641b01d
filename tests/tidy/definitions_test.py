"""No two types have the same name in the same namespace, and the check sees it when two do."""

import unittest
from pathlib import Path

from definitions import definitions_of_several, types
from tree import project_files, read_text


class TheCheck(unittest.TestCase):
    def test_sees_types_of_named_namespaces(self) -> None:
        text = """namespace tzmark {
struct A {
  struct Inner {
  };
};
class B final : public A {
};
enum class C : int { kOne };
struct alignas(64) D {
};
namespace {
struct Local {
};
}  // namespace
namespace io::paths {
union E {
};
}  // namespace io::paths
struct Forward;
struct F {
};
}  // namespace tzmark
struct Global {
};
"""
        self.assertEqual(
            types(text),
            {f"tzmark::{name}" for name in "ABCDF"}
            | {"tzmark::io::paths::E", "Global"},
        )

    def test_names_the_files(self) -> None:
        text = "namespace tzmark {\nstruct Range {\n};\n}  // namespace tzmark\n"
        other = text.replace("tzmark", "tzmark::bench")
        self.assertEqual(
            definitions_of_several(
                {Path("b.h"): text, Path("a.cc"): text, Path("c.h"): other}
            ),
            ["tzmark::Range: a.cc, b.h"],
        )


class TheProject(unittest.TestCase):
    def test_defines_each_type_once(self) -> None:
        files = {
            path: read_text(path) or ""
            for path in project_files()
            if path.suffix in (".h", ".cc", ".cu")
        }
        self.assertGreater(sum(len(types(text)) for text in files.values()), 500)
        self.assertEqual(definitions_of_several(files), [])


if __name__ == "__main__":
    unittest.main()
