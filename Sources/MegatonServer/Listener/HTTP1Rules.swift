internal import Foundation
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

/// Rules of one connection:
///
/// - It ends with the response to a request whose client does not keep it open (RFC 9112 section 9.3): one of HTTP/1.0
///   without `keep-alive`, whose client reads until the connection is closed, or one with `close` in any case of
///   letters. The framework ends it if the field `Connection` is exactly `close`.
/// - The answer to bytes that are no request is a `ProblemDocument`, as all other errors are. That of the framework has
///   no body, and no middleware sees it.
private final class HTTP1Rules: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = Self.unwrapInboundIn(data), !head.isKeepAlive else {
            context.fireChannelRead(data)
            return
        }
        head.headers.replaceOrAdd(name: "Connection", value: "close")
        context.fireChannelRead(Self.wrapInboundOut(.head(head)))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .head(var head) = Self.unwrapOutboundIn(data), Self.isOfFramework(head),
            let json = try? ProblemDocument.invalidRequest.json()
        else {
            context.write(data, promise: promise)
            return
        }
        head.headers.replaceOrAdd(name: "Content-Type", value: ProblemDocument.contentType)
        head.headers.replaceOrAdd(name: "Content-Length", value: "\(json.count)")
        head.headers.replaceOrAdd(name: "Cache-Control", value: "no-store")
        context.write(Self.wrapOutboundOut(.head(head)), promise: promise)
        // The framework writes the end.
        context.write(Self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: json)))), promise: nil)
    }

    /// Whether a response is the framework's to bytes that are no request: each other one with this status has a body.
    private static func isOfFramework(_ head: HTTPResponseHead) -> Bool {
        head.status.code == 400 && head.headers.first(name: "Content-Length") == "0"
            && head.headers.first(name: "Connection") == "close"
    }
}
