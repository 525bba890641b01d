"""The recipe of Spack for tzmark; docs/installing.md says how to use it."""

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
except ImportError:
    pass  # Before Spack 1.0 the next line has it.
from spack.package import *


class Tzmark(CMakePackage):
    """Conformance suite, throughput benchmark and reference codec of the tensorizer file format (.tensors), which
    stores weights of models so that they load at the speed of the disk. Also judges readers and writers of safetensors.
    """

    # OWNER is the account that has the repository.
    homepage = "https://github.com/OWNER/tzmark"
    git = "https://github.com/OWNER/tzmark.git"

    license("MIT")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("curl", default=True, description="Read http, https and s3 URLs")
    variant("python", default=False, description="Build the Python module")
    variant("mpi", default=False, description="Build what runs as ranks of a job")
    variant("cuda", default=False, description="Build the kernels for GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    # It writes the corpus, and the programs run their reports with it.
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("cli11@2.1:", type="build")
    depends_on("nlohmann-json@3.10:", type="build")
    depends_on("fmt@9:")
    depends_on("isa-l")
    depends_on("libsodium")
    depends_on("liburing@2.3:")
    depends_on("openssl@3:")
    depends_on("tinyxml2")
    depends_on("zlib-api")
    depends_on("curl@7.85:", when="+curl")
    depends_on("mpi", when="+mpi")
    depends_on("cuda@12:", when="+cuda")
    extends("python", when="+python")

    conflicts("%gcc@:10", msg="C++20 of GCC 11 is needed")
    requires("platform=linux", msg="tzmark reads by io_uring and O_DIRECT")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define_from_variant("TZMARK_CURL", "curl"),
            self.define_from_variant("TZMARK_PYTHON", "python"),
            self.define_from_variant("TZMARK_MPI", "mpi"),
            self.define_from_variant("TZMARK_CUDA", "cuda"),
            self.define("TZMARK_BUILD_TESTS", False),
            self.define("TZMARK_BUILD_FUZZERS", False),
            self.define("CMAKE_UNITY_BUILD", True),
        ]
        if self.spec.satisfies("+python"):
            args.append(self.define("TZMARK_PYTHON_INSTALL_DIR", python_platlib))
        return args

    def test_conform(self):
        """the suite judges the codec that was built"""
        tzmark = which(self.prefix.bin.tzmark)
        tzmark("conform", "--quick")
