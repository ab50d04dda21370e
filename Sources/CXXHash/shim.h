// XXH3: a checksum that reads memory as fast as it comes. It finds damage; it is no proof against forgers.
#pragma once
#include <xxhash.h>
