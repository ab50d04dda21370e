public import Foundation
public import FoundationNetworking

/// The source of an image, how to process it, and its identity in the caches: Nuke's request.
///
/// ```swift
/// ImageRequest(url: url, processors: [.resize(width: 320)], priority: .high, options: [.reloadIgnoringCachedData])
/// ```
public struct ImageRequest: Sendable {
    /// The source of the bytes.
    enum Resource: Sendable {
        case url(URL)
        case urlRequest(URLRequest)
        /// Bytes that a closure returns.
        case data(id: String, fetch: @Sendable () async throws -> Data)
        /// An image that a closure returns, without download or decoding.
        case image(id: String, fetch: @Sendable () async throws -> ImageContainer)
        /// A nil URL: accepted, but loading it fails, as in Nuke.
        case none
    }

    var resource: Resource
    /// Processors, applied in this order.
    public var processors: [any ImageProcessing]
    /// Order in which waiting work starts.
    public var priority: Priority
    /// Options that say how caches and the origin are used.
    public var options: Options
    /// Decodes a smaller image directly, which is the cheapest way to get one.
    public var thumbnail: ThumbnailOptions?
    /// Additional header fields of the request to the origin.
    public var headers: [String: String]
    /// Identifies the users that may see the image: part of all keys, so that no user receives an image that only
    /// others may see. It does not select a credential; `credentialName` of the `URLRequest` does. Code that sets
    /// `credentialName` must set this too.
    public var credentialScope: String?
    /// Values for the delegate and for decoders. They are part of no key, so they must not affect the resulting image.
    public var userInfo: [UserInfoKey: any Sendable]
    /// Maximum age of a remembered failure that may be returned; if an older one is remembered, the origin is asked.
    /// Nil, the default, accepts any remembered failure. `.zero` accepts only failures of concurrent requests.
    /// `Cache-Control: no-cache` and `max-age` limit the age too.
    package var maximumFailureAge: Duration?
    /// The time since which the origin must have been asked, for a request that refreshes entries of any age: a result
    /// that it waited for does not answer it if the origin was asked earlier. Nil accepts each awaited result.
    package var validatedSince: Date?
    /// Whether other requests are known to need the original too, so that `DataCachePolicy.storeReused` stores it.
    package var expectsReuse = false
    private var customID: String?
    /// The revision of a local file, once a pipeline has checked it: part of its keys.
    var revision: String?
    /// The delegate's key for the original, once a pipeline has asked for it; it replaces `imageID`.
    var originalName: String?

    /// - Parameter url: `http:`, `https:`, `file:` or `data:`; nil fails with `.invalidURL` when it is loaded.
    public init(
        url: URL?,
        processors: [any ImageProcessing] = [],
        priority: Priority = .normal,
        options: Options = [],
        userInfo: [UserInfoKey: any Sendable] = [:]
    ) {
        self.init(url.map(Resource.url) ?? .none, processors, priority, options, userInfo)
    }

    /// - Parameter urlRequest: its method, header fields and cache policy are used for the download.
    public init(
        urlRequest: URLRequest,
        processors: [any ImageProcessing] = [],
        priority: Priority = .normal,
        options: Options = [],
        userInfo: [UserInfoKey: any Sendable] = [:]
    ) {
        self.init(.urlRequest(urlRequest), processors, priority, options, userInfo)
    }

    /// Bytes from a closure, which is called once for all concurrent requests with the same ID.
    ///
    /// - Parameter id: identifies the bytes in the caches.
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

    /// An image from a closure. It has no encoded bytes, so that it is never cached as an original.
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

    /// The URL; nil for closures.
    public var url: URL? {
        switch resource {
        case .url(let url): url
        case .urlRequest(let request): request.url
        case .data, .image, .none: nil
        }
    }

    /// The `URLRequest` that was given, or one made from the URL. Nil for closures.
    public var urlRequest: URLRequest? {
        switch resource {
        case .url(let url): URLRequest(url: url)
        case .urlRequest(let request): request
        case .data, .image, .none: nil
        }
    }

    /// Identifies the original in the caches instead of its URL, e.g. for presigned URLs that change with each request.
    /// Concurrent requests with the same ID share one download.
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
    /// A URL. If the string is no valid URL, loading fails.
    public init(stringLiteral value: String) { self.init(url: URL(string: value)) }
}

extension ImageRequest: CustomStringConvertible {
    public var description: String {
        // A custom ID may be a URL too.
        let name = customID.map(Redaction.text) ?? url?.redacted ?? originalID.map(Redaction.text) ?? "no URL"
        return "ImageRequest(\(name), processors: \(processors.map(\.identifier)), priority: \(priority))"
    }
}

extension ImageRequest {
    var isFile: Bool { url?.scheme?.lowercased() == "file" }

    /// Whether the bytes are local (`file:` or `data:`). They are never cached as originals.
    var isLocal: Bool { ["file", "data"].contains(url?.scheme?.lowercased()) }

    /// Whether processors or a thumbnail are applied to the original.
    var changesOriginal: Bool { !processors.isEmpty || thumbnail != nil }

    /// Whether the request has an original. An image that a closure makes has none.
    var hasBytes: Bool { if case .image = resource { false } else { true } }

    /// Whether a cache may hold the original.
    var hasOriginal: Bool {
        hasBytes && !isLocal
    }
}
