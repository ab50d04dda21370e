internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import MegatonCore
internal import MegatonPipeline
internal import NIOCore

/// The route of images, `/image/{signature}/{options}/{source}`, for GET and HEAD.
///
/// It is open to clients without a token: the signature shows that the operator's own program has made the URL.
struct ImageRoutes: Sendable {
    /// The beginning of all paths.
    static let prefix = "/image"

    private let configuration: ImageServer.Configuration
    private let places: ImagePlaces
    private let sender: ImageSender
    private let addresses: ForwardedAddress
    private let metrics: ImageMetrics
    private let isReady: @Sendable () -> Bool
    private let render: @Sendable (Rendition, URL) async throws(RenditionError) -> RenderedImage
    private let now: @Sendable () -> Int

    /// - Parameters:
    ///   - places: those of the server, which shows their number; nil for new ones.
    ///   - isReady: whether images can be made.
    ///   - now: seconds since 1970.
    ///   - render: makes an image, or finds it in a cache.
    init(
        _ configuration: ImageServer.Configuration,
        places: ImagePlaces? = nil,
        metrics: ImageMetrics = ImageMetrics(),
        isReady: @escaping @Sendable () -> Bool = { true },
        now: @escaping @Sendable () -> Int = { Int(Date().timeIntervalSince1970) },
        render: @escaping @Sendable (Rendition, URL) async throws(RenditionError) -> RenderedImage
    ) {
        self.configuration = configuration
        self.places = places ?? ImagePlaces(configuration.limit)
        self.metrics = metrics
        sender = ImageSender(maximum: configuration.sendingLimit)
        addresses = ForwardedAddress(proxies: configuration.proxies)
        self.isReady = isReady
        self.now = now
        self.render = render
    }

    /// - Parameter router: generates the route for HEAD from that for GET. Middlewares that it gets later do not see
    ///   requests for images.
    func add(to router: Router<ServerContext>) {
        router.get(RouterPath(Self.prefix + "/**")) { (request, context) async throws -> Response in
            do {
                return try await answer(request, context)
            } catch let error as APIError {
                // The middleware would log the path of a refusal such as 503: the source in it may have secrets.
                if error.status.code >= 500 {
                    context.logger.info(
                        "a request for an image was refused",
                        metadata: ["status": "\(error.status.code)", "reason": "\(error.detail)"]
                    )
                }
                return try error.response()
            }
        }
        router.add(middleware: ImageMethods(prefix: Self.prefix))
    }

    private func answer(_ request: Request, _ context: ServerContext) async throws -> Response {
        try check(request)
        try metrics.counting(.rate) { () throws(APIError) in try takeToken(request, context) }
        let (url, source) = try read(request)
        let accepted = AcceptedFormats(request.headers[values: .accept])
        let settings = configuration.settings
        let rendition = try Self.refusing { () throws(ImageURLError) in
            try url.options.rendition(defaultFormat: accepted.best(among: settings.formats), settings: settings)
        }
        // Until the image is there: a client that reads slowly keeps no other one waiting.
        let place = try metrics.counting(.places) { () throws(APIError) in
            try places.enter(ImagePlaces.Key(rendition: rendition, source: source))
        }
        if !isReady() {
            metrics.count(.start)
            throw APIError.unavailable("The server is not connected to Redis yet; try again later.")
        }
        let image: RenderedImage
        do throws(RenditionError) {
            image = try await render(rendition, source)
        } catch {
            return try response(to: error, of: source, rendition, context)
        }
        withExtendedLifetime(place) {}
        let response = try image.response(
            to: request,
            url.options,
            at: now(),
            maximumAge: configuration.maximumAge,
            by: sender,
            on: context.channel.eventLoop,
            metrics
        )
        if request.method == .get { metrics.countBody(response.body.contentLength ?? 0) }
        return response
    }

    private func response(
        to error: RenditionError,
        of source: URL,
        _ rendition: Rendition,
        _ context: ServerContext
    ) throws -> Response {
        switch error {
        case .failed(let error): return try response(to: error, of: source, rendition, context)
        // A client cannot change it, and no fallback image may hide it.
        case .unavailable(let reason):
            metrics.count(.workers)
            throw APIError.unavailable(reason)
        case .overdue:
            throw APIError(
                .gatewayTimeout,
                "No worker has made the image in time; it may be there after the time of Retry-After.",
                headers: [.retryAfter: "1"]
            )
        }
    }

    private func response(
        to error: ImagePipeline.Error,
        of source: URL,
        _ rendition: Rendition,
        _ context: ServerContext
    ) throws -> Response {
        let failure = ImageFailure(error, of: rendition)
        context.logger.log(
            // Most are faults of origins, and a client can cause any number of them.
            level: failure.status == .internalServerError ? .warning : .info,
            "an image could not be made",
            metadata: ["status": "\(failure.status.code)", "error": "\(error)", "source": "\(source.redacted)"]
        )
        if failure.status == .serviceUnavailable { metrics.count(.host) }
        if failure.isOfSource, let fallback = configuration.fallback {
            return fallback.response(to: failure, on: context.channel.eventLoop)
        }
        return try failure.response()
    }

    /// A server without signatures is for this machine: a page of another site must not use it through a name that
    /// leads here.
    private func check(_ request: Request) throws(APIError) {
        if configuration.settings.signature.isRequired { return }
        if LoopbackRule.isLocal(authority: request.head.authority, origin: nil) { return }
        throw APIError(
            .forbidden,
            "This server accepts image URLs without a signature, and so refuses requests whose Host is not localhost "
                + "or a loopback address."
        )
    }

    private func takeToken(_ request: Request, _ context: ServerContext) throws(APIError) {
        guard let rate = configuration.rate else { return }
        let forwarded = request.headers[values: .init("X-Forwarded-For")!]
        let address = addresses.client(peer: context.remoteAddress?.ipAddress, forwarded: forwarded)
        guard let delay = rate.take(AttemptLimit.Client(address)) else { return }
        throw APIError(
            .tooManyRequests,
            "This address has requested too many images; try again after the time of Retry-After.",
            headers: [.retryAfter: "\(Int(delay.inSeconds.rounded(.up)))"]
        )
    }

    private func read(_ request: Request) throws(APIError) -> (ImageURL, source: URL) {
        // The path as it was received: its signature is for these bytes.
        let path = String(Substring(request.uri.path.utf8.dropFirst(Self.prefix.utf8.count)))
        let url = try Self.refusing { () throws(ImageURLError) in
            try ImageURL(path: path, at: now(), settings: configuration.settings)
        }
        guard let source = URL(string: url.source) else {
            throw APIError(
                .badRequest,
                "The source of the image is not a URL; spaces and other special characters in it must be "
                    + "percent-encoded, before it is encoded for the path."
            )
        }
        return (url, source)
    }

    /// The value of a body that reads a URL.
    private static func refusing<Value>(_ body: () throws(ImageURLError) -> Value) throws(APIError) -> Value {
        do throws(ImageURLError) {
            return try body()
        } catch {
            let known: [HTTPResponse.Status] = [.forbidden, .notFound]
            throw APIError(known.first { $0.code == error.status } ?? .badRequest, error.description)
        }
    }
}

/// Answers requests for images that have another method than GET and HEAD with 405.
///
/// It is a middleware behind the routes of images and in front of that of tokens, which would ask for a token: clients
/// of images have none. The answer has no path, as the source in it may have secrets.
struct ImageMethods: RouterMiddleware {
    typealias Context = ServerContext

    /// The beginning of the paths of images.
    let prefix: String

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let isAllowed = request.method == .get || request.method == .head
        guard !isAllowed, request.uri.path.hasPrefix(prefix + "/") else { return try await next(request, context) }
        throw APIError(
            .methodNotAllowed,
            "Images have no method \(request.method.rawValue); they have GET, HEAD.",
            headers: [.allow: "GET, HEAD"]
        )
    }
}
