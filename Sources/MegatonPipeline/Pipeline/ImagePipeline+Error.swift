package import Foundation

extension ImagePipeline {
    /// Why an image could not be had. Crosses processes, hence a struct with a code.
    public struct Error: Swift.Error, Sendable, Hashable, Codable, CustomStringConvertible {
        /// A stable name, fit for tables and metric labels.
        public var code: Code
        /// What happened, to what, and what can be done. At most ``maximumMessage`` characters, and of URLs neither a
        /// user or a password nor a query, also where a loader or a closure of somebody else has put them there.
        public var message: String {
            didSet { message = Self.presentable(message) }
        }
        /// Whether the same request may succeed later.
        public var isRetryable: Bool
        /// Seconds before which a retry is of no use (Retry-After, or a remembered failure). As the next two, not negative
        /// and a century at the most, whatever it is set to; not a number is nil.
        public var retryAfter: Double? {
            didSet { retryAfter = Self.bounded(retryAfter) }
        }
        /// Seconds for which the origin asked not to be asked again (Retry-After); nil if it did not ask for that.
        public var requestedDelay: Double? {
            didSet { requestedDelay = Self.bounded(requestedDelay) }
        }
        /// Seconds for which this failure is still remembered; nil if the origin has just been asked.
        public var remembered: Double? {
            didSet { remembered = Self.bounded(remembered) }
        }
        /// Limits that the origin's answer sets on remembering the failure; nil if it sets none.
        public var reuse: Reuse?
        /// What was allowed as it was met; nil if that does not matter, or is not known.
        package var allowance: Allowance?
        /// The origin's status, where there was one.
        public var status: Int?
        /// What was asked for, without user, password and query, which may hold secrets. Nil of what has no URL.
        public var url: String?
        /// Where it went wrong; nil where that was between the stages, as in a wait for somebody else's work.
        public var stage: Stage?
        /// The media type that the origin gave, now or when the bytes went to a cache.
        public var contentType: String?
        /// The first bytes of what came, as text without queries or as hex: of bytes that are no good, of error pages, and
        /// of bodies that broke off.
        public var excerpt: String?
        /// The error of a loader, closure, decoder, processor or encoder of one's own that led to this one. It does not
        /// cross processes: it is not encoded.
        public var underlying: (any Swift.Error)?

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

        /// Errors are equal if their codes are: messages are for people.
        public static func == (left: Self, right: Self) -> Bool { left.code == right.code }

        public func hash(into hasher: inout Hasher) { hasher.combine(code) }

        /// Characters of a message: an origin may have a say in it (its header fields, a place that it redirects to).
        public static let maximumMessage = 4096

        private static func presentable(_ message: String) -> String {
            // In this order: half a URL would not be known as one.
            String(Redaction.text(message).prefix(maximumMessage))
        }

        /// Seconds that JSON can hold and a `Duration` can count, also if a loader of somebody else says infinity: who cannot
        /// encode an error cannot end its flight.
        static func bounded(_ seconds: Double?) -> Double? {
            seconds.flatMap { $0.isNaN ? nil : min(max(0, $0), 100 * 365 * 24 * 3600) }
        }

        /// A URL for ``url``.
        package static func withoutQuery(_ url: URL) -> String { String(url.redacted.prefix { $0 != "?" }) }

        public var description: String { "\(code.rawValue): \(message)" }

        /// Without `underlying`, which need not be `Codable`.
        enum CodingKeys: String, CodingKey {
            case code, message, status, url, stage, excerpt
            case contentType = "content_type"
            case isRetryable = "retryable"
            case retryAfter = "retry_after"
            case requestedDelay = "requested_delay"
            case remembered, reuse, allowance
        }

        /// The stages of a request.
        public enum Stage: String, Sendable, Codable, CaseIterable {
            case load, decode, process, encode, store
        }

        /// The classes of failure.
        public enum Code: String, Sendable, Codable, CaseIterable {
            /// The URL is none, or of a scheme that is not allowed.
            case invalidURL = "invalid_url"
            /// A rule forbids the address, port, host or path.
            case forbidden = "forbidden"
            /// A credential is asked for by a name that is not known here, or is not for the URL.
            case credentialMissing = "no_credential"
            /// 404 or 410, or no such file.
            case notFound = "not_found"
            /// 401 or 403, or no permission to read.
            case accessDenied = "access_denied"
            /// Another answer that is no success.
            case httpStatus = "http_status"
            /// The name has no address, or nobody answers there.
            case unreachable = "unreachable"
            case tls = "tls"
            /// No answer within the whole time.
            case timedOut = "timed_out"
            case connectTimedOut = "connect_timed_out"
            /// Fewer bytes a second than must come.
            case tooSlow = "too_slow"
            /// Fewer or more bytes than announced, or a connection that broke.
            case incompleteBody = "incomplete_body"
            /// The answer is not HTTP: a garbled status line, a header line without an end.
            case badResponse = "bad_response"
            case tooManyRedirects = "too_many_redirects"
            case dataIsEmpty = "empty"
            case dataTooLarge = "too_large"
            /// Of an answer, or of a picture.
            case headerTooLarge = "header_too_large"
            /// A loader failed in a way of its own.
            case dataLoadingFailed = "loading_failed"
            /// The request may not ask an origin, and no cache has it.
            case dataMissingInCache = "not_in_cache"
            /// The bytes are of no kind that is switched on.
            case unsupportedFormat = "unsupported_format"
            /// The decoder refused the bytes.
            case corruptImage = "corrupt_image"
            /// Over the limit on pixels: told from the header, nothing was decoded. So are the next three.
            case imageTooLarge = "image_too_large"
            case sideTooLong = "side_too_long"
            case tooManyBands = "too_many_bands"
            case tooManyFrames = "too_many_frames"
            /// What was asked for is over the limit, or became so on the way.
            case outputTooLarge = "output_too_large"
            /// More memory than a process may use for one picture.
            case tooCostly = "too_costly"
            case renderTimedOut = "render_timed_out"
            case renderFailed = "render_failed"
            /// No decoder wants the bytes.
            case decoderNotRegistered = "decoder_not_registered"
            case processingFailed = "processing_failed"
            case encodingFailed = "encoding_failed"
            /// The pipeline has been ended.
            case pipelineInvalidated = "pipeline_invalidated"
            /// The result could not be written.
            case outputFailed = "output_failed"
            /// A file is in the result's place that it must not replace.
            case outputExists = "output_exists"
            /// The disk, or the quota on it, has no room for the result.
            case diskFull = "disk_full"
            /// The host must not be asked now: its limits are used up, or it wanted to be left alone.
            case throttled = "throttled"
            /// The wait for somebody else's work took too long.
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
}

extension ImagePipeline.Error: CustomReflectable {
    /// Of `underlying` only the type: what a loader or closure has thrown may hold a URL with its query, and a dump of this
    /// error is to have no secrets.
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
extension ImagePipeline.Error {
    public static let cancelled = Self(.cancelled, "The request was cancelled.")
    public static let dataMissingInCache = Self(.dataMissingInCache, "The image is in no cache.")
    public static let dataIsEmpty = Self(.dataIsEmpty, "There were no bytes.")
    public static let pipelineInvalidated = Self(.pipelineInvalidated, "The pipeline has been ended.")
    /// Of a request without a URL.
    public static let imageRequestMissing = Self(.invalidURL, "The request has no URL to load bytes from.")
    public static let dataDownloadExceededMaximumSize = Self(.dataTooLarge, "The body is larger than the limit.")
}

extension ImagePipeline.Error {
    /// Whether the origin could not be reached or is broken: a cache may then serve what is stale, where the origin allows
    /// that. RFC 5861 section 4 names 500, 502, 503 and 504; a cache that gets no answer would itself say 502 or 504, and
    /// what is near an origin has more numbers for the same.
    public var isOriginFailure: Bool {
        switch code {
        case .unreachable, .tls, .timedOut, .connectTimedOut, .tooSlow, .incompleteBody, .badResponse: true
        case .httpStatus: (500..<600).contains(status ?? 0)
        default: false
        }
    }

    /// Whether this is the origin's last word on the source, so that what was kept of an earlier answer no longer holds
    /// (RFC 9111 section 4.3.3).
    public var supersedesEntry: Bool {
        switch code {
        case .notFound, .accessDenied, .dataIsEmpty, .dataTooLarge, .unsupportedFormat, .corruptImage,
            .imageTooLarge, .sideTooLong, .tooManyBands, .tooManyFrames:
            true
        case .httpStatus: !isRetryable
        // Of a picture. Too many header fields of one answer say nothing of the source.
        case .headerTooLarge: stage != .load
        default: false
        }
    }
}
