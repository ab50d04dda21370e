"""The origin of Tests/Pace at an address that can be taken away, as a host that is down.

Usage: python3 -m megaton_operate.origin_process ADDRESS PORT
"""

import asyncio
import sys

from megaton_pace.origin import Origin


async def main(address, port):
    server = await asyncio.start_server(Origin().serve, address, port, backlog=2048)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
