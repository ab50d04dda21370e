// Declares nothing: the library is loaded into a process under test by LD_PRELOAD.
//
//   codec.c   a codec that crashes on marked images
//   clock.c   a wall clock that steps
//   disk.c    a full disk
#pragma once
