// Nothing is called from here: the library is for LD_PRELOAD, in front of a process under test.
//
//   codec.c   a codec that dies of a certain picture
//   clock.c   a wall clock that steps
//   disk.c    a disk that is full
#pragma once
