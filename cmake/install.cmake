# What `cmake --install` puts where: libraries, headers, the CLI and its man page,
# facc.pc and the CMake package. Included by CMakeLists.txt, after the targets.
# A Python wheel (runtime/python, scikit-build-core) takes the component "python"
# alone.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# libfacc.a is one object in which everything but facc_* is local: names such as
# arena_alloc cannot meet an embedder's. The linker joins, objcopy makes hidden
# symbols local.
set(FACC_ARCHIVE ${CMAKE_BINARY_DIR}/libfacc.a)
if(CMAKE_OBJCOPY AND NOT FACC_SANITIZE)
    add_custom_command(
        OUTPUT ${FACC_ARCHIVE}
        COMMAND ${CMAKE_LINKER} -r -o facc.o $<TARGET_OBJECTS:facc_objects>
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden facc.o
        COMMAND ${CMAKE_COMMAND} -E rm -f ${FACC_ARCHIVE}
        COMMAND ${CMAKE_AR} rcs ${FACC_ARCHIVE} facc.o
        DEPENDS facc_objects $<TARGET_OBJECTS:facc_objects>
        COMMENT "Joining objects into libfacc.a" VERBATIM COMMAND_EXPAND_LISTS)
    add_custom_target(facc_archive ALL DEPENDS ${FACC_ARCHIVE})
    install(FILES ${FACC_ARCHIVE} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

set_target_properties(facc PROPERTIES PUBLIC_HEADER
    "runtime/facc.h;runtime/facc_cache.h;runtime/facc_device.h")
target_include_directories(facc INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS facc EXPORT faccTargets)

# From bin/ to the libraries, wherever the tree is moved to.
file(RELATIVE_PATH FACC_BIN_TO_LIB ${CMAKE_INSTALL_FULL_BINDIR}
    ${CMAKE_INSTALL_FULL_LIBDIR})
if(FACC_BUILD_CLI)
    set_target_properties(facc_cli PROPERTIES
        INSTALL_RPATH "$ORIGIN/${FACC_BIN_TO_LIB}")
    install(TARGETS facc_cli)
    # The page says what --help says, as it was built.
    add_custom_command(
        OUTPUT ${CMAKE_BINARY_DIR}/facc.1
        COMMAND ${CMAKE_COMMAND} -DFACC=$<TARGET_FILE:facc_cli>
                -DOUT=${CMAKE_BINARY_DIR}/facc.1 -DROOT=${CMAKE_SOURCE_DIR}
                -P ${CMAKE_SOURCE_DIR}/cmake/man.cmake
        DEPENDS facc_cli ${CMAKE_SOURCE_DIR}/cmake/man.cmake
                ${CMAKE_SOURCE_DIR}/cmake/facc.1.in
        COMMENT "Writing facc.1" VERBATIM)
    add_custom_target(facc_man ALL DEPENDS ${CMAKE_BINARY_DIR}/facc.1)
    install(FILES ${CMAKE_BINARY_DIR}/facc.1
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

set(FACC_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/facc)
install(EXPORT faccTargets NAMESPACE facc:: DESTINATION ${FACC_CMAKE_DIR})
configure_package_config_file(cmake/faccConfig.cmake.in
    ${CMAKE_BINARY_DIR}/faccConfig.cmake INSTALL_DESTINATION ${FACC_CMAKE_DIR}
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
# Below 1.0 a minor version may break what was.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/faccConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/faccConfig.cmake
    ${CMAKE_BINARY_DIR}/faccConfigVersion.cmake DESTINATION ${FACC_CMAKE_DIR})

file(RELATIVE_PATH FACC_PC_TO_PREFIX
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/facc.pc.in facc.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/facc.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# A wheel has the library under its plain name, and beside it those that a
# machine may lack: it looks for them in its own folder first.
if(SKBUILD)
    install(FILES $<TARGET_FILE:facc> DESTINATION facc RENAME libfacc.so
        COMPONENT python)
    install(CODE "
        file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"$<TARGET_FILE:facc>\"
            RESOLVED_DEPENDENCIES_VAR found
            PRE_INCLUDE_REGEXES \"liblua|libcjson\" PRE_EXCLUDE_REGEXES \".*\")
        foreach(library IN LISTS found)
            get_filename_component(name \${library} NAME)
            file(REAL_PATH \${library} file)
            file(INSTALL \${file} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/facc\"
                RENAME \${name})
        endforeach()" COMPONENT python)
endif()
