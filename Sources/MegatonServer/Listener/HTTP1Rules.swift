internal import NIOCore
internal import NIOHTTP1

/// Adds the rules of HTTP/1 that the framework lacks to a connection.
///
/// They need the version of a request, and the framework places the handlers of an application behind the one that
/// drops it. So this handler places another one beside the decoder.
final class HTTP1RulesInstaller: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Never

    func handlerAdded(context: ChannelHandlerContext) {
        do {
            let pipeline = context.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(HTTP1Rules(), position: .after(decoder))
        } catch {
            context.fireErrorCaught(error)
        }
    }
}

/// Ends a connection with the response to a request whose client does not keep it open (RFC 9112 section 9.3): one of
/// HTTP/1.0 without `keep-alive`, whose client reads until the connection is closed, or one with `close` in any case of
/// letters.
///
/// The framework ends it if the field `Connection` is exactly `close`.
private final class HTTP1Rules: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = Self.unwrapInboundIn(data), !head.isKeepAlive else {
            context.fireChannelRead(data)
            return
        }
        head.headers.replaceOrAdd(name: "Connection", value: "close")
        context.fireChannelRead(Self.wrapInboundOut(.head(head)))
    }
}
