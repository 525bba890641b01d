# The packages of rpm, for scripts/package rpm: the command, and the corpus of the suite. The environment names the
# build, TZMARK_BUILD_DIR, and its version, TZMARK_VERSION.
set(build "$ENV{TZMARK_BUILD_DIR}")
set(CPACK_PACKAGE_VERSION "$ENV{TZMARK_VERSION}")
if(NOT build OR NOT CPACK_PACKAGE_VERSION)
  message(FATAL_ERROR "TZMARK_BUILD_DIR and TZMARK_VERSION are not given; run scripts/package rpm")
endif()
set(CPACK_GENERATOR RPM)
set(CPACK_CMAKE_GENERATOR Ninja)
set(CPACK_PACKAGE_NAME tzmark)
set(CPACK_PACKAGE_FILE_NAME "tzmark-${CPACK_PACKAGE_VERSION}")
set(CPACK_TOPLEVEL_TAG Linux)
set(CPACK_PACKAGE_VENDOR "The tzmark authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Conformance suite and benchmark of the .tensors file format")
set(CPACK_PACKAGE_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION_SUMMARY}")
set(CPACK_INSTALL_CMAKE_PROJECTS "${build};tzmark;ALL;/")
set(CPACK_COMPONENTS_ALL tzmark corpus)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_MAIN_COMPONENT tzmark)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_RELEASE_DIST OFF)
set(CPACK_RPM_TZMARK_PACKAGE_SUMMARY "${CPACK_PACKAGE_DESCRIPTION_SUMMARY}")
set(CPACK_RPM_TZMARK_PACKAGE_DESCRIPTION
"The tensorizer format (.tensors) and safetensors store weights of models so
that they load at the speed of the disk. This package has the command tzmark,
which judges any reader or writer of them, names each broken rule and its
place in the file, measures which path of input and output gets the most of a
disk, network or machine, and reads, verifies, converts and edits files.")
set(CPACK_RPM_CORPUS_PACKAGE_SUMMARY "Files with known verdicts, for readers and writers of .tensors")
set(CPACK_RPM_CORPUS_PACKAGE_ARCHITECTURE noarch)
set(CPACK_RPM_CORPUS_PACKAGE_DESCRIPTION
"The tensorizer format (.tensors) and safetensors store weights of models.
This package has the files that tzmark conform runs an implementation on:
each with the rules that it is for, its verdict, and its exact decode.")
# Directories of the system belong to other packages.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/libexec /usr/share/man /usr/share/man/man1 /usr/share/bash-completion /usr/share/bash-completion/completions
  /usr/share/zsh /usr/share/zsh/site-functions /usr/share/fish /usr/share/fish/vendor_completions.d)
set(CPACK_RPM_SPEC_MORE_DEFINE
"%define _build_id_links none
%define _use_internal_dependency_generator 1
%define clamp_mtime_to_source_date_epoch 1
%define use_source_date_epoch_as_buildtime 1
%define _buildhost reproducible")
