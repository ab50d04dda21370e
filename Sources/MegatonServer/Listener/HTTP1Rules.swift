internal import Foundation
internal import NIOCore
internal import NIOHTTP1

/// Adds the rules of HTTP/1 that the framework lacks to a connection.
///
/// They need the version of a request, and the framework places the handlers of an application behind the one that
/// drops it. So this handler places another one beside the decoder.
final class HTTP1RulesInstaller: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Never

    private let bodyLimit: Duration

    /// - Parameter bodyLimit: time for which the rest of a body is read behind its response.
    init(bodyLimit: Duration) { self.bodyLimit = bodyLimit }

    func handlerAdded(context: ChannelHandlerContext) {
        do {
            let pipeline = context.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(HTTP1Rules(bodyLimit), position: .after(decoder))
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
/// - A client that was answered in the middle of its body, for the most part by a refusal, has a time limit for the
///   rest. The framework reads it for as long as it comes, also from a client without a token. It must be read for some
///   time: bytes that are left unread would make the client lose the response.
/// - A request of HTTP/1.1 has exactly one field `Host`, and one of HTTP/1.0 at most one (RFC 9112 section 3.2). A
///   proxy in front of the server may use another one of several than the server.
/// - The answer to bytes that are no request is a `ProblemDocument`, as all other errors are. That of the framework has
///   no body, and no middleware sees it.
private final class HTTP1Rules: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private var rest: CloseTimer
    /// Whether the last request that has begun has not ended.
    private var isRequestOpen = false
    /// Number of requests that have begun; a client may send several at once.
    private var begun = 0
    /// Number of responses that have ended.
    private var answered = 0
    /// Whether a request was refused, after which the connection ends.
    private var isRefused = false

    init(_ bodyLimit: Duration) { rest = CloseTimer(bodyLimit) }

    func handlerRemoved(context: ChannelHandlerContext) { rest.stop() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isRefused { return }
        switch Self.unwrapInboundIn(data) {
        case .head(let head) where !Self.hasOneHost(head):
            isRefused = true
            // The framework answers it like bytes that are no request, and closes the connection.
            context.fireErrorCaught(HTTPParserError.invalidHeaderToken)
            return
        case .head(var head):
            isRequestOpen = true
            begun += 1
            if head.isKeepAlive { break }
            head.headers.replaceOrAdd(name: "Connection", value: "close")
            context.fireChannelRead(Self.wrapInboundOut(.head(head)))
            return
        case .body: break
        case .end:
            isRequestOpen = false
            rest.stop()
        }
        context.fireChannelRead(data)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The rest of a refused request may be no request either, and has been answered.
        if isRefused, error is HTTPParserError { return }
        context.fireErrorCaught(error)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch Self.unwrapOutboundIn(data) {
        case .head(let head) where Self.isOfFramework(head):
            refuse(head, context, promise)
            return
        case .end:
            answered += 1
            if isRequestOpen && answered == begun { rest.start(context.channel) }
        default: break
        }
        context.write(data, promise: promise)
    }

    private static func hasOneHost(_ head: HTTPRequestHead) -> Bool {
        let count = head.headers["Host"].count
        return count == 1 || count == 0 && head.version != .http1_1
    }

    private func refuse(
        _ head: HTTPResponseHead,
        _ context: ChannelHandlerContext,
        _ promise: EventLoopPromise<Void>?
    ) {
        var head = head
        // A document of texts can always be encoded; an empty one says enough with its status.
        let json = (try? ProblemDocument.invalidRequest.json()) ?? Data()
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
