// The reply reader of hiredis is all that Megaton uses: sockets are SwiftNIO's.
#pragma once
#include <stddef.h>
#include <hiredis/read.h>
#include <hiredis/hiredis.h>
