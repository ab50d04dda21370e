internal import Crypto
package import Foundation
internal import FoundationNetworking

/// The first bytes of an interrupted download, with the metadata needed to fetch the rest by a range request (RFC 9110
/// sections 13.1.5 and 14). Follows the rules of Nuke and closes their gaps.
///
/// Bytes are joined only if a strong validator guarantees that they belong to the same representation, and if the
/// response says that it continues at the byte after the stored ones.
package struct ResumableData: Sendable, Equatable {
    /// Meaning of the response to a request for the rest.
    enum Splice: Equatable {
        /// The body continues the stored bytes.
        case append
        /// The response is complete in itself; the stored bytes are useless.
        case restart
        /// Both the stored bytes and the response are useless.
        ///
        /// - Parameter retries: whether to send the request again without a range, because the origin refused only the
        ///   range. Nothing is left to resume then, so this happens at most once.
        case forget(retries: Bool)
        /// The origin failed; the stored bytes are still valid.
        case keep
    }

    /// Sizes worth storing, bytes.
    package struct Limits: Sendable {
        /// Minimum size worth storing: refetching less is cheaper than a lookup.
        var least = 64 * 1024
        /// Maximum size of the whole body; that of `ImagePipeline.Configuration.maximumDataSize`.
        var most = 64 * 1024 * 1024

        package init(least: Int = 64 * 1024, most: Int = 64 * 1024 * 1024) {
            self.least = least
            self.most = most
        }
    }

    /// URL of the request without user, password, query and fragment, which may be secret.
    let url: URL
    /// A strong entity tag, or a `Last-Modified` date that is a strong validator.
    package let validator: String
    /// Size of the whole body, bytes.
    let total: Int
    /// Bytes of the body from the first one on.
    package let data: Data
    /// Header fields of the first response, names in lower case. The response to a request for the rest need not repeat
    /// them (RFC 9110 section 15.3.7).
    let headers: [String: String]
    /// Address that the first bytes came from, if it is not public: processes that may not connect to it do not resume
    /// the download.
    package var address: String?

    /// Maximum age of a part from a shared cache, seconds.
    static let longestStorage: Double = 24 * 3600

    /// Same as the initializer below, for bytes already in memory.
    init?(
        request: URLRequest,
        response: URLResponse?,
        data: Data,
        continuing previous: ResumableData? = nil,
        unkeyed: UnkeyedHeaders? = nil,
        limits: Limits = Limits()
    ) {
        self.init(
            request: request,
            response: response,
            count: data.count,
            data: { data },
            continuing: previous,
            unkeyed: unkeyed,
            limits: limits
        )
    }

    /// The part of an interrupted load that is worth storing.
    ///
    /// - Parameters:
    ///   - count: bytes received, including those resumed from `previous`.
    ///   - data: returns all bytes from the first one on, including those resumed from `previous`. Called only if they
    ///     are worth storing.
    ///   - previous: the part that the request asked to resume; ignored unless the response continues it.
    ///   - unkeyed: unkeyed headers of the request; nil if it was sent as it is.
    /// - Returns: nil if the rest cannot be requested, or if the part is not worth storing.
    init?(
        request: URLRequest,
        response: URLResponse?,
        count: Int,
        data: () -> Data,
        continuing previous: ResumableData? = nil,
        unkeyed: UnkeyedHeaders? = nil,
        limits: Limits = Limits()
    ) {
        guard let response = response as? HTTPURLResponse, let url = request.url.flatMap(Self.place) else { return nil }
        let headers = response.lowercasedHeaders
        let previous = response.statusCode == 206 ? previous : nil
        guard let total = Self.total(response.statusCode, headers, previous) else { return nil }
        let unkeyed = unkeyed ?? UnkeyedHeaders(sent: request, known: request, scope: nil)
        // RFC 9111 section 3.3: a part may be stored only if the whole response may be.
        let merged = (previous?.headers ?? [:]).merging(headers) { $1 }
        guard HTTPFreshness.mayKeep(merged, status: 200, isAuthorized: unkeyed.isAuthorized),
            unkeyed.areIrrelevant(to: merged),
            let validator = previous?.validator ?? Self.strongValidator(headers),
            count >= max(1, limits.least), count < total, total <= limits.most
        else { return nil }
        let data = data()
        guard data.count == count else { return nil }
        self.url = url
        self.validator = validator
        self.total = total
        self.data = data
        self.headers = previous?.headers ?? headers.filter { Self.keptHeaders.contains($0.key) }
        address = previous?.address
    }

    private static let keptHeaders: Set<String> = [
        "accept-ranges", "cache-control", "content-disposition", "content-language", "content-type", "date", "etag",
        "expires", "last-modified", "vary",
    ]

    /// Turns a request into one for the rest.
    ///
    /// - Returns: false if its URL or method is another one, or if it already has a range; it is left unchanged then.
    func resume(_ request: inout URLRequest) -> Bool {
        guard let place = request.url.flatMap(Self.place), place == url, (request.httpMethod ?? "GET") == "GET",
            ["Range", "If-Range"].allSatisfy({ request.value(forHTTPHeaderField: $0) == nil })
        else { return false }
        request.setValue("bytes=\(data.count)-", forHTTPHeaderField: "Range")
        request.setValue(validator, forHTTPHeaderField: "If-Range")
        return true
    }

    /// Evaluates the response to a resumed request.
    ///
    /// - Parameter response: nil if the load ended before a response arrived.
    func splice(with response: HTTPURLResponse?) -> Splice {
        guard let response else { return .keep }
        return splice(status: response.statusCode, headers: response.lowercasedHeaders)
    }

    /// Evaluates the failure of a resumed request without a response; `DataLoader` reports a rejected status like this.
    func splice(after error: ImageError) -> Splice {
        error.status.map { splice(status: $0, headers: [:]) } ?? .keep
    }

    /// - Parameter headers: names in lower case.
    private func splice(status: Int, headers: [String: String]) -> Splice {
        switch status {
        case 206: continues(headers) ? .append : .forget(retries: true)
        case 200..<300, 304: .restart
        case 416: .forget(retries: true)
        case 408, 425, 429, 500..<600: .keep
        default: .forget(retries: false)
        }
    }

    /// Whether bytes from the first one on are the whole body.
    func isWhole(_ data: Data) -> Bool { data.count == total }

    /// The response for the whole body: stored header fields, updated by those of the response for the rest (RFC 9111
    /// section 3.4).
    func whole(with rest: HTTPURLResponse) -> HTTPURLResponse? {
        var fields = headers.merging(rest.lowercasedHeaders) { $1 }
        fields["content-range"] = nil
        fields["content-length"] = String(total)
        return HTTPURLResponse(
            url: rest.url ?? url,
            statusCode: 200,
            httpVersion: "HTTP/1.1",
            headerFields: fields
        )
    }

    // MARK: - Rules

    private func continues(_ headers: [String: String]) -> Bool {
        guard let range = ContentRange(headers["content-range"]), range.first == data.count, range.total == total,
            !Self.isEncoded(headers)
        else { return false }
        // With `If-Range` the origin compares the validator. An origin that still sends another tag or date did not.
        if validator.hasPrefix("\""), let etag = headers["etag"] { return etag == validator }
        guard let date = headers["last-modified"], let first = self.headers["last-modified"] else { return true }
        return date == first
    }

    /// The URL without the parts that may differ under one cache key: a presigned URL has another query each time.
    private static func place(_ url: URL) -> URL? {
        guard var parts = URLComponents(url: url, resolvingAgainstBaseURL: true) else { return nil }
        parts.scheme = parts.scheme?.lowercased()
        parts.host = parts.host?.lowercased()
        (parts.user, parts.password, parts.query, parts.fragment) = (nil, nil, nil, nil)
        return parts.url
    }

    /// Size of the whole body, bytes; nil if the download cannot be resumed.
    private static func total(_ status: Int, _ headers: [String: String], _ previous: ResumableData?) -> Int? {
        // The loader may have decoded the body, so the count of encoded bytes is unknown.
        if isEncoded(headers) { return nil }
        if let previous { return previous.continues(headers) ? previous.total : nil }
        if status == 206 {
            guard let range = ContentRange(headers["content-range"]), range.first == 0 else { return nil }
            return range.total
        }
        let units = HTTPFieldList.elements(headers["accept-ranges"] ?? "").map { $0.lowercased() }
        guard status == 200, units.contains("bytes"), headers["transfer-encoding"] == nil else { return nil }
        return headers["content-length"].flatMap { ContentRange.number($0[...]) }
    }

    private static func isEncoded(_ headers: [String: String]) -> Bool {
        let coding = headers["content-encoding"]?.lowercased() ?? ""
        return !coding.isEmpty && coding != "identity"
    }

    /// The validator for `If-Range`. A date qualifies only if there is no entity tag, not even a weak one (RFC 9110
    /// section 13.1.5), and if the response is from a later second: within the same second the image may have changed
    /// again (section 8.8.2.2). All representations at a URL may share one date, so it identifies none of them if the
    /// response varies.
    private static func strongValidator(_ headers: [String: String]) -> String? {
        if let etag = headers["etag"] { return isStrong(etag) ? etag : nil }
        guard let modified = headers["last-modified"], let changed = HTTPDate.parse(modified),
            let date = HTTPDate.parse(headers["date"]), date.timeIntervalSince(changed) >= 1,
            VaryKey.names(headers) == .none
        else { return nil }
        return modified
    }

    /// RFC 9110 section 8.8.3: visible characters in quotes.
    private static func isStrong(_ etag: String) -> Bool {
        let bytes = etag.utf8
        return bytes.count >= 2 && bytes.first == UInt8(ascii: "\"") && bytes.last == UInt8(ascii: "\"")
            && bytes.dropFirst().dropLast().allSatisfy { $0 == 0x21 || (0x23...0x7e).contains($0) || $0 >= 0x80 }
    }
}

// MARK: - In a cache

extension ResumableData {
    /// A copy whose bytes are in a file, if they exceed the spool's threshold.
    package func spooled(_ spool: BodySpool) -> ResumableData {
        ResumableData(self, spool.spooled(data))
    }

    private init(_ other: ResumableData, _ data: Data) {
        url = other.url
        validator = other.validator
        total = other.total
        headers = other.headers
        address = other.address
        self.data = data
    }

    /// Metadata in front of the bytes.
    private struct Header: Codable {
        let url: URL
        let validator: String
        let total: Int
        let headers: [String: String]
        let count: Int
        /// SHA-256 of the bytes, hex: a damaged part would spoil the image, and a decoder may not notice.
        let sha256: String
        /// Time of storage, seconds since 1970.
        let stored: Double
        /// Nil also in parts that earlier versions stored.
        let address: String?
    }

    /// One blob for a data cache, so that another worker can fetch the rest.
    package func encoded(at now: Date = Date()) throws -> Data {
        let header = Header(
            url: url,
            validator: validator,
            total: total,
            headers: headers,
            count: data.count,
            sha256: SHA256.hash(data: data).hexDigits,
            stored: now.timeIntervalSince1970,
            address: address
        )
        return try BlobFormat.partialDownload.encode(header, data)
    }

    /// Decodes a blob; nil if it has another format, is damaged, or is too old to be worth a request.
    package init?(encoded blob: Data, at now: Date = Date()) {
        guard let (header, body) = BlobFormat.partialDownload.decode(Header.self, from: blob) else { return nil }
        let data = Data(body)
        let isRecent = abs(now.timeIntervalSince1970 - header.stored) <= Self.longestStorage
        guard isRecent, data.count == header.count, data.count > 0, data.count < header.total,
            Self.isStrong(header.validator) || HTTPDate.parse(header.validator) != nil,
            SHA256.hash(data: data).hexDigits == header.sha256
        else { return nil }
        url = header.url
        validator = header.validator
        total = header.total
        self.data = data
        headers = header.headers
        address = header.address
    }
}
