public import Foundation
public import FoundationNetworking

/// What is to be fetched, what is made of it, and what it is called in the caches: Nuke's request.
///
/// ```swift
/// ImageRequest(url: url, processors: [.resize(width: 320)], priority: .high, options: [.reloadIgnoringCachedData])
/// ```
public struct ImageRequest: Sendable {
    /// Where the bytes come from.
    enum Resource: Sendable {
        case url(URL)
        case urlRequest(URLRequest)
        /// Bytes of a closure.
        case data(id: String, fetch: @Sendable () async throws -> Data)
        /// A picture of a closure: nothing is fetched or decoded.
        case image(id: String, fetch: @Sendable () async throws -> ImageContainer)
        /// A URL that was nil: accepted, and refused when it is loaded, as in Nuke.
        case none
    }

    let resource: Resource
    /// Applied in their order.
    public var processors: [any ImageProcessing]
    /// Which of those who wait goes first.
    public var priority: Priority
    public var options: Options
    /// Decodes a smaller picture straight away, which is the cheapest way to a small picture.
    public var thumbnail: ThumbnailOptions?
    /// Additional header fields of the request to the origin.
    public var headers: [String: String]
    /// Who may see it: part of all keys, so that nobody is handed what another may see. It selects no credential; the
    /// `credentialName` of the `URLRequest` does. Who sets that one sets this one too.
    public var credentialScope: String?
    /// For the delegate and for decoders: in no key, so that what changes the picture must not be in here.
    public var userInfo: [UserInfoKey: any Sendable]
    /// A remembered failure that is older is not the answer: the origin is asked. Nil, as by default, accepts any that is
    /// remembered; `.zero` none but those of others who ask at the same time. `Cache-Control: no-cache` and `max-age`
    /// limit the age too.
    public var maximumFailureAge: Duration?
    private var customID: String?
    /// Of a local file, once a pipeline has looked at it: part of its names.
    var revision: String?
    /// The delegate's name for the original, once a pipeline has asked for it; it takes the place of `imageID`.
    var originalName: String?

    /// - Parameter url: `http:`, `https:`, `file:` or `data:`; nil is refused with `.invalidURL` when it is loaded.
    public init(
        url: URL?,
        processors: [any ImageProcessing] = [],
        priority: Priority = .normal,
        options: Options = [],
        userInfo: [UserInfoKey: any Sendable] = [:]
    ) {
        self.init(url.map(Resource.url) ?? .none, processors, priority, options, userInfo)
    }

    /// - Parameter urlRequest: its method, header fields and cache policy are part of what is fetched.
    public init(
        urlRequest: URLRequest,
        processors: [any ImageProcessing] = [],
        priority: Priority = .normal,
        options: Options = [],
        userInfo: [UserInfoKey: any Sendable] = [:]
    ) {
        self.init(.urlRequest(urlRequest), processors, priority, options, userInfo)
    }

    /// Bytes that a closure fetches: called once for all who want the same id at the same time.
    ///
    /// - Parameter id: of the bytes: their name in the caches.
    public init(
        id: String,
        data: @escaping @Sendable () async throws -> Data,
        processors: [any ImageProcessing] = [],
        priority: Priority = .normal,
        options: Options = [],
        userInfo: [UserInfoKey: any Sendable] = [:]
    ) {
        self.init(.data(id: id, fetch: data), processors, priority, options, userInfo)
    }

    /// A picture that a closure makes: it is never kept as an original, as it has no bytes.
    public init(
        id: String,
        image: @escaping @Sendable () async throws -> ImageContainer,
        processors: [any ImageProcessing] = [],
        priority: Priority = .normal,
        options: Options = [],
        userInfo: [UserInfoKey: any Sendable] = [:]
    ) {
        self.init(.image(id: id, fetch: image), processors, priority, options, userInfo)
    }

    private init(
        _ resource: Resource,
        _ processors: [any ImageProcessing],
        _ priority: Priority,
        _ options: Options,
        _ userInfo: [UserInfoKey: any Sendable]
    ) {
        self.resource = resource
        self.processors = processors
        self.priority = priority
        self.options = options
        self.userInfo = userInfo
        headers = [:]
    }

    /// Nil for closures.
    public var url: URL? {
        switch resource {
        case .url(let url): url
        case .urlRequest(let request): request.url
        case .data, .image, .none: nil
        }
    }

    /// As it was given, or made of the URL. Nil for closures.
    public var urlRequest: URLRequest? {
        switch resource {
        case .url(let url): URLRequest(url: url)
        case .urlRequest(let request): request
        case .data, .image, .none: nil
        }
    }

    /// The name in the caches, in the place of the URL: for presigned URLs that change with each request. What has the
    /// same name at the same time is also fetched once.
    public var imageID: String? {
        get { customID ?? originalID }
        set { customID = newValue }
    }

    private var originalID: String? {
        switch resource {
        case .data(let id, _), .image(let id, _): id
        case .url, .urlRequest, .none: url?.absoluteString
        }
    }
}

extension ImageRequest: ExpressibleByStringLiteral {
    /// A URL; one that is none is refused when it is loaded.
    public init(stringLiteral value: String) { self.init(url: URL(string: value)) }
}

extension ImageRequest: CustomStringConvertible {
    public var description: String {
        // A name may be a URL too.
        let name = customID.map(Redaction.text) ?? url?.redacted ?? originalID.map(Redaction.text) ?? "no URL"
        return "ImageRequest(\(name), processors: \(processors.map(\.identifier)), priority: \(priority))"
    }
}
