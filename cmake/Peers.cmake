# The MPI programs of `shunt bench --peers`, beside the shunt program: one for
# each MPI whose compiler is there, compiled by it as a user would compile a
# program of his own, for this machine. Nothing else needs them.
file(GLOB peer_sources CONFIGURE_DEPENDS
	${PROJECT_SOURCE_DIR}/bench/peers/*.c)
list(APPEND peer_sources ${PROJECT_SOURCE_DIR}/bench/stats.c)
file(GLOB peer_headers CONFIGURE_DEPENDS
	${PROJECT_SOURCE_DIR}/bench/peers/*.h)

set(peer_programs)
foreach(mpi IN ITEMS openmpi mpich)
	string(TOUPPER MPICC_${mpi} compiler)
	find_program(${compiler} mpicc.${mpi})
	mark_as_advanced(${compiler})
	if(NOT ${compiler})
		continue()
	endif()
	set(program ${PROJECT_BINARY_DIR}/bin/shunt-peer-${mpi})
	add_custom_command(OUTPUT ${program}
		COMMAND ${${compiler}} -std=gnu17 -D_GNU_SOURCE -O3
			-march=native -ffp-contract=off ${SHUNT_WARNINGS}
			-I${PROJECT_SOURCE_DIR}/bench -o ${program}
			${peer_sources} -lm
		DEPENDS ${peer_sources} ${peer_headers}
			${PROJECT_SOURCE_DIR}/bench/random.h
			${PROJECT_SOURCE_DIR}/bench/stats.h
		COMMENT "Compiling the peer for ${mpi}" VERBATIM)
	list(APPEND peer_programs ${program})
endforeach()

if(peer_programs)
	add_custom_target(peers ALL DEPENDS ${peer_programs})
	add_dependencies(peers shunt_program)
else()
	add_custom_target(peers
		COMMAND ${CMAKE_COMMAND} -E echo
			"no mpicc.openmpi, no mpicc.mpich: run ./build.sh peers"
		COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
endif()
