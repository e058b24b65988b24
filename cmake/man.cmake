# cmake -DFACC=facc -DOUT=facc.1 -DROOT=source-tree -P man.cmake
# The man page: facc.1.in with the text of --help of every command.
cmake_minimum_required(VERSION 3.25)

function(help_of out)
    execute_process(COMMAND ${FACC} ${ARGN} --help OUTPUT_VARIABLE text
        COMMAND_ERROR_IS_FATAL ANY)
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Text as it stands: roff's own characters escaped, lines as they are.
function(as_roff out text)
    string(REPLACE "\\" "\\e" text "${text}")
    string(REPLACE "-" "\\-" text "${text}")
    string(REPLACE "'" "\\(aq" text "${text}")
    string(REPLACE "\n." "\n\\&." text "${text}")
    string(REPLACE "…" "..." text "${text}")
    set(${out} ".nf\n${text}.fi\n" PARENT_SCOPE)
endfunction()

execute_process(COMMAND ${FACC} --version OUTPUT_VARIABLE VERSION
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
help_of(overview)
string(REGEX MATCHALL "\n  [a-z]+ " rows "${overview}")
if(NOT rows)
    message(FATAL_ERROR "facc --help lists no commands")
endif()
as_roff(OVERVIEW "${overview}")
set(COMMANDS "")
foreach(row IN LISTS rows)
    string(STRIP "${row}" name)
    help_of(text ${name})
    as_roff(text "${text}")
    string(APPEND COMMANDS ".SS facc ${name}\n${text}")
endforeach()
configure_file(${ROOT}/cmake/facc.1.in ${OUT} @ONLY)
