// glibc's allocator: Swift's own module of glibc has no mallopt.
#pragma once
#include <malloc.h>
