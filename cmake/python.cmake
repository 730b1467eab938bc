# Where the pieces that Python starts or imports go, and how extension modules are made.
#
# RASK_NATIVE_DIR is the folder of the rask package that holds the executable and the extension
# modules. The release preset points it into the source tree (python/rask/_native, ignored by git),
# so a checkout works without being installed; other presets keep it inside their build folder, so
# that a sanitizer build never replaces the one in use. In a wheel it is rask/_native.
set(RASK_NATIVE_DIR "${CMAKE_BINARY_DIR}/native" CACHE PATH "Folder for executables and modules")

# rask_executable(name SOURCES ... LINKS ...): a program that the rask package starts.
function(rask_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE rask_flags ${ARG_LINKS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${RASK_NATIVE_DIR}")
  install(TARGETS ${name} RUNTIME DESTINATION rask/_native)
endfunction()

if(NOT RASK_PYTHON)
  return()
endif()

# The interpreter: the one asked for, else the checkout's .venv, else the first on PATH.
if(NOT Python_EXECUTABLE)
  if(EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
    set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  else()
    find_program(RASK_PYTHON_ON_PATH NAMES python3 python REQUIRED)
    set(Python_EXECUTABLE "${RASK_PYTHON_ON_PATH}")
  endif()
endif()
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
                OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT
                RESULT_VARIABLE RASK_NANOBIND_MISSING)
if(RASK_NANOBIND_MISSING)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind. "
                      "Run `make setup`, or pass -DPython_EXECUTABLE=…, or -DRASK_PYTHON=OFF.")
endif()
find_package(nanobind CONFIG REQUIRED)

# rask_python_module(name SOURCES ... LINKS ...): the extension module rask._native.<name>.
function(rask_python_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  nanobind_add_module(${name} STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE rask_flags ${ARG_LINKS})
  target_compile_definitions(${name} PRIVATE RASK_VERSION="${PROJECT_VERSION}")
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${RASK_NATIVE_DIR}")
  install(TARGETS ${name} LIBRARY DESTINATION rask/_native)
endfunction()
