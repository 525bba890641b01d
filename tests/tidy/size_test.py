"""A checkout of the whole project stays small enough to clone over a slow line."""

import unittest

from tree import SOURCE_DIR, project_files

CHECKOUT_BYTES_MAX = 37 << 20


class Size(unittest.TestCase):
    def test_whole_checkout(self) -> None:
        sizes = {path: (SOURCE_DIR / path).stat().st_size for path in project_files()}
        total_bytes = sum(sizes.values())
        self.assertGreater(total_bytes, 0)
        largest = sorted(sizes, key=lambda path: -sizes[path])[:10]
        listing = "\n".join(f"{sizes[path]:>10} {path}" for path in largest)
        self.assertLess(total_bytes, CHECKOUT_BYTES_MAX, f"the largest:\n{listing}")


if __name__ == "__main__":
    unittest.main()
