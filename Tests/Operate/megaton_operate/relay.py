"""A relay whose connections come from ever other addresses of the loopback network.

Usage: python3 -m megaton_operate.relay PORT SERVER-PORT

The server refuses an address after ten wrong tokens within a minute. Behind the relay each connection is another
client.
"""

import asyncio
import itertools
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def main(port, server):
    numbers = itertools.count(1)

    async def serve(reader, writer):
        number = next(numbers)
        address = f"127.{10 + number // 62500 % 200}.{number // 250 % 250}.{number % 250 + 1}"
        try:
            connection = await asyncio.open_connection("127.0.0.1", server, local_addr=(address, 0))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, connection[1]), copy(connection[0], writer))

    async with await asyncio.start_server(serve, "127.0.0.1", port, backlog=512) as listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
