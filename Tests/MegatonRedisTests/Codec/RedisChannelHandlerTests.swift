import NIOCore
import NIOEmbedded
import Testing

@testable import MegatonRedis

@Suite struct RedisChannelHandlerTests {
    private final class FlushCounter: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        var count = 0

        func flush(context: ChannelHandlerContext) {
            count += 1
            context.flush()
        }
    }

    /// Under load the commands of many tasks arrive in one turn of the event loop, and a system call for each would
    /// cost more than the rest of their handling.
    @Test func commandsOfOneTurnAreSentTogether() throws {
        let (counter, handler) = (FlushCounter(), RedisChannelHandler())
        let channel = EmbeddedChannel(handlers: [counter, handler])
        try channel.connect(to: SocketAddress(unixDomainSocketPath: "/redis")).wait()
        let promises = (0..<10).map { _ in channel.eventLoop.makePromise(of: [RedisValue].self) }
        for promise in promises { handler.send([["PING"]], deadline: .distantFuture, promise: promise) }
        channel.embeddedEventLoop.run()
        #expect(counter.count == 1)
        for _ in promises { try channel.writeInbound(ByteBuffer(string: "+PONG\r\n")) }
        for promise in promises { #expect(try promise.futureResult.wait() == [.status("PONG")]) }
        handler.send([["PING"]], deadline: .distantFuture, promise: channel.eventLoop.makePromise())
        channel.embeddedEventLoop.run()
        #expect(counter.count == 2)
        _ = try? channel.finish()  // A reply is missing, but no expectation depends on that.
    }
}
