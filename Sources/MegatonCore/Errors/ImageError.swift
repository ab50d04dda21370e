package import Foundation

/// A failed request. A struct with a code, as errors are sent between processes.
public struct ImageError: Swift.Error, Sendable, Hashable, Codable, CustomStringConvertible {
    /// Stable name of the failure, suited for tables and metric labels.
    public var code: Code
    /// Description of the failure: what happened, to which source, and what can be done. At most `maximumMessage`
    /// characters. User, password and query are removed from URLs, also in texts of custom loaders and closures.
    public var message: String {
        didSet { message = Self.presentable(message) }
    }
    /// Whether the same request may succeed later.
    public var isRetryable: Bool
    /// Seconds before which a retry is pointless (Retry-After, or a remembered failure).
    ///
    /// Like the next two, clamped to 0 through 100 years; not a number becomes nil.
    public var retryAfter: Double? {
        didSet { retryAfter = Self.bounded(retryAfter) }
    }
    /// Seconds for which the origin asked not to be asked again (Retry-After); nil if it did not ask for that.
    package var requestedDelay: Double? {
        didSet { requestedDelay = Self.bounded(requestedDelay) }
    }
    /// Seconds for which this failure is still remembered; nil if the origin has just been asked.
    package var remembered: Double? {
        didSet { remembered = Self.bounded(remembered) }
    }
    /// Limits that the origin's response sets on remembering the failure; nil if it sets none.
    package var reuse: Reuse?
    /// Limits in force when the request failed; nil if they do not matter or are not known.
    package var allowance: Allowance?
    /// Address of the origin, if it is not public, or the store of an `s3:` URL: processes that may not connect to it,
    /// or have another store, do not answer with this failure when it is remembered. Nil if it is public or unknown.
    package var address: String?
    /// When the host of the request takes another one, if it did not take this one.
    package var hostTurn: HostTurn?
    /// Whether the disk of this machine is full, read-only or broken, so that another one may write the same output. It
    /// is not encoded.
    package var isOfStorage = false
    /// HTTP status of the origin's response; nil if there was none.
    public var status: Int?
    /// URL of the request, without user, password and query, which may hold secrets; nil if there is none.
    public var url: String?
    /// Stage that failed; nil for failures between stages, e.g. in a wait for another request's work.
    public var stage: Stage?
    /// Media type that the origin declared, in this response or in the one that was cached.
    public var contentType: String?
    /// First bytes of the response, as text without queries or as hex: of corrupt images, of error pages, and of
    /// truncated bodies.
    public var excerpt: String?
    /// Error of a custom loader, closure, decoder, processor or encoder that caused this one. It is not encoded, so
    /// it does not cross processes.
    public var underlying: (any Swift.Error)?

    /// Creates an error.
    public init(
        _ code: Code,
        _ message: String,
        isRetryable: Bool? = nil,
        retryAfter: Double? = nil,
        status: Int? = nil,
        stage: Stage? = nil,
        underlying: (any Swift.Error)? = nil
    ) {
        self.code = code
        self.message = Self.presentable(message)
        self.isRetryable = isRetryable ?? code.isUsuallyRetryable
        self.retryAfter = Self.bounded(retryAfter)
        self.status = status
        self.stage = stage
        self.underlying = underlying
    }

    /// Errors are equal if their codes are: messages are for display only.
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }

    public func hash(into hasher: inout Hasher) { hasher.combine(code) }

    /// Maximum length of a message in characters. An origin can contribute to it (header fields, redirect targets).
    static let maximumMessage = 4096

    private static func presentable(_ message: String) -> String {
        // Redact before truncating: half a URL would not be recognized.
        String(Redaction.text(message).prefix(maximumMessage))
    }

    /// Clamps seconds to values that JSON can encode and a `Duration` can represent. A custom loader may report
    /// infinity, and a process that cannot encode an error cannot end its flight.
    static func bounded(_ seconds: Double?) -> Double? {
        seconds.flatMap { $0.isNaN ? nil : min(max(0, $0), 100 * 365 * 24 * 3600) }
    }

    /// Formats a URL for ``url``.
    package static func withoutQuery(_ url: URL) -> String { String(url.redacted.prefix { $0 != "?" }) }

    public var description: String { "\(code.rawValue): \(message)" }

    /// Without `underlying`, which need not be `Codable`.
    enum CodingKeys: String, CodingKey {
        case code, message, status, url, stage, excerpt
        case contentType = "content_type"
        case isRetryable = "retryable"
        case retryAfter = "retry_after"
        case requestedDelay = "requested_delay"
        case hostTurn = "host_turn"
        case remembered, reuse, allowance, address
    }

    /// The stages of a request.
    public enum Stage: String, Sendable, Codable, CaseIterable {
        case load, decode, process, encode, store
    }

    /// The classes of failure.
    public enum Code: String, Sendable, Codable, CaseIterable {
        /// The URL is malformed, or its scheme is not allowed.
        case invalidURL = "invalid_url"
        /// A rule forbids the address, port, host or path.
        case forbidden = "forbidden"
        /// The named credential is not configured in this process, or is not valid for the URL.
        case credentialMissing = "no_credential"
        /// A rendition names a watermark that is not configured in this process. The code is that of other jobs that
        /// cannot be done as they are.
        case watermarkMissing = "invalid_job"
        /// 404 or 410, or no such file.
        case notFound = "not_found"
        /// 401 or 403, or no permission to read.
        case accessDenied = "access_denied"
        /// Any other unsuccessful HTTP status.
        case httpStatus = "http_status"
        /// The host name has no address, or no server accepts the connection.
        case unreachable = "unreachable"
        case tls = "tls"
        /// No complete response within the timeout.
        case timedOut = "timed_out"
        case connectTimedOut = "connect_timed_out"
        /// The transfer was slower than the required bytes per second.
        case tooSlow = "too_slow"
        /// Fewer or more bytes than announced, or a broken connection.
        case incompleteBody = "incomplete_body"
        /// The response is not HTTP: a garbled status line, a header line without an end.
        case badResponse = "bad_response"
        case tooManyRedirects = "too_many_redirects"
        case dataIsEmpty = "empty"
        case dataTooLarge = "too_large"
        /// Too large a header, of a response or of an image.
        case headerTooLarge = "header_too_large"
        /// A loader failed with an error of its own.
        case dataLoadingFailed = "loading_failed"
        /// The request must not ask an origin, and no cache has the image.
        case dataMissingInCache = "not_in_cache"
        /// The format of the bytes is not enabled.
        case unsupportedFormat = "unsupported_format"
        /// The decoder refused the bytes.
        case corruptImage = "corrupt_image"
        /// More pixels than the limit. Detected in the header before anything is decoded, as are the next three.
        case imageTooLarge = "image_too_large"
        case sideTooLong = "side_too_long"
        case tooManyBands = "too_many_bands"
        case tooManyFrames = "too_many_frames"
        /// The requested output exceeds a limit, or grew beyond it during processing.
        case outputTooLarge = "output_too_large"
        /// The image needs more memory than the process may use for one image.
        case tooCostly = "too_costly"
        case renderTimedOut = "render_timed_out"
        case renderFailed = "render_failed"
        /// No decoder accepts the bytes.
        case decoderNotRegistered = "decoder_not_registered"
        case processingFailed = "processing_failed"
        case encodingFailed = "encoding_failed"
        /// The pipeline was invalidated.
        case pipelineInvalidated = "pipeline_invalidated"
        /// The result could not be written.
        case outputFailed = "output_failed"
        /// A file exists at the output path and must not be replaced.
        case outputExists = "output_exists"
        /// The disk, or the quota on it, has no room for the result.
        case diskFull = "disk_full"
        /// The host must not be asked now: its limits are used up, or it asked for a delay.
        case throttled = "throttled"
        /// The wait for another request's work took too long.
        case waitTimedOut = "wait_timed_out"
        case cancelled = "cancelled"

        var isUsuallyRetryable: Bool {
            switch self {
            case .unreachable, .tls, .timedOut, .connectTimedOut, .tooSlow, .incompleteBody, .badResponse,
                .waitTimedOut, .throttled, .cancelled:
                true
            default: false
            }
        }
    }
}

extension ImageError: CustomReflectable {
    /// Shows only the type of `underlying`: the error of a loader or closure may contain a URL with its query, and a
    /// dump of this error must not reveal secrets.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "code": code, "message": message, "isRetryable": isRetryable, "retryAfter": retryAfter as Any,
                "requestedDelay": requestedDelay as Any, "remembered": remembered as Any, "reuse": reuse as Any,
                "status": status as Any, "url": url as Any, "stage": stage as Any, "contentType": contentType as Any,
                "excerpt": excerpt as Any, "underlying": underlying.map { "\(type(of: $0))" } as Any,
            ]
        )
    }
}

// Names of Nuke's cases without a payload, for comparisons: `error == .cancelled`, `catch .cancelled`.
extension ImageError {
    /// The request was cancelled.
    public static let cancelled = Self(.cancelled, "The request was cancelled.")
    /// The image is in no cache, and loading was not allowed.
    public static let dataMissingInCache = Self(.dataMissingInCache, "The image is in no cache.")
    /// The source has no bytes.
    public static let dataIsEmpty = Self(.dataIsEmpty, "There were no bytes.")
    /// The pipeline accepts no more requests.
    public static let pipelineInvalidated = Self(.pipelineInvalidated, "The pipeline has been ended.")
    /// The request has no URL.
    public static let imageRequestMissing = Self(.invalidURL, "The request has no URL to load bytes from.")
    /// The body is larger than the limit.
    public static let dataDownloadExceededMaximumSize = Self(.dataTooLarge, "The body is larger than the limit.")
}

extension ImageError {
    /// Whether the origin is unreachable or broken. A cache may then serve a stale entry if the origin allows it.
    ///
    /// So is one whose circuit breaker is open: it is not asked, because it has failed.
    ///
    /// RFC 5861 section 4 names 500, 502, 503 and 504. A cache that receives no response would itself report 502 or
    /// 504, and proxies near an origin have further 5xx statuses for the same.
    package var isOriginFailure: Bool {
        switch code {
        case .unreachable, .tls, .timedOut, .connectTimedOut, .tooSlow, .incompleteBody, .badResponse: true
        case .httpStatus: (500..<600).contains(status ?? 0)
        case .throttled: hostTurn?.isOpen == true
        default: false
        }
    }

    /// Whether this is the origin's definitive answer about the source, which invalidates an earlier cached response
    /// (RFC 9111 section 4.3.3).
    package var supersedesEntry: Bool {
        switch code {
        case .notFound, .accessDenied, .dataIsEmpty, .dataTooLarge, .unsupportedFormat, .corruptImage,
            .imageTooLarge, .sideTooLong, .tooManyBands, .tooManyFrames:
            true
        case .httpStatus: !isRetryable
        // True for an image's header. Too large a header of one response says nothing about the source.
        case .headerTooLarge: stage != .load
        default: false
        }
    }
}

extension ImageError {
    /// Limits that a failed response of an origin sets on its reuse for later requests (RFC 9111).
    package struct Reuse: Sendable, Hashable, Codable {
        /// Seconds for which the response may be reused, 0 if it must not be stored; nil if the response states none.
        package var lifetime: Double? {
            didSet { lifetime = ImageError.bounded(lifetime) }
        }
        /// Request fields that selected the response (`Vary`), in lower case, with digests of the values sent; nil if
        /// the response does not vary.
        package var vary: [String: String]?

        package init(lifetime: Double? = nil, vary: [String: String]? = nil) {
            self.lifetime = ImageError.bounded(lifetime)
            self.vary = vary
        }
    }

    /// Limits and rules in force when a request failed. The failure does not answer requests of pipelines that allow
    /// more.
    package struct Allowance: Sendable, Hashable, Codable {
        /// Limits by name; a larger value allows more.
        package var limits: [String: Double] = [:]
        /// Names of the formats that are decoded; nil if they do not matter for the failure.
        package var types: Set<String>?

        package init() {}

        /// Whether `other` allows everything that is allowed here. A limit that only one of them has is ignored: custom
        /// loaders declare none, and other versions may have others.
        package func isWithin(_ other: Self) -> Bool {
            let isTypeKnown =
                if let types, let known = other.types { types.isSubset(of: known) } else { true }
            return isTypeKnown
                && limits.allSatisfy { name, limit in other.limits[name].map { limit <= $0 } ?? true }
        }
    }
}
