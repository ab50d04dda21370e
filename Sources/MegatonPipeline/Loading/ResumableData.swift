internal import Crypto
internal import Foundation
internal import FoundationNetworking

/// The beginning of a body whose download was interrupted, and what is needed to fetch the rest of it (RFC 9110
/// sections 13.1.5 and 14): Nuke's rules, with what they lack.
///
/// Bytes are joined only where the origin has sworn that they are of the same representation, by a strong validator,
/// and where it says that the rest begins where ours end.
struct ResumableData: Sendable, Equatable {
    /// What an answer to a request for the rest means.
    enum Splice: Equatable {
        /// The body continues what is kept.
        case append
        /// The answer stands for itself, and what is kept is of no use.
        case restart
        /// What is kept is of no use, nor is the answer.
        ///
        /// - Parameter retries: whether to ask again, without a range: the origin has refused that and nothing else.
        ///   There is nothing left to resume then, so that this happens once.
        case forget(retries: Bool)
        /// The origin has failed, and what is kept is as good as before.
        case keep
    }

    /// How many bytes are worth being kept, and how many may be.
    struct Limits: Sendable {
        /// Less is sooner fetched again than looked up.
        var least = 64 * 1024
        /// Of the whole body; that of `ImagePipeline.Configuration.maximumDataSize`.
        var most = 64 * 1024 * 1024
    }

    /// Of the request, without what may be secret in it: name, password and query.
    let url: URL
    /// A strong entity tag, or a date of `Last-Modified` that is a strong validator.
    let validator: String
    /// Bytes of the whole body.
    let total: Int
    /// From the first byte on.
    let data: Data
    /// Header fields of the first answer, names in lower case: that to a request for the rest need not have them again
    /// (RFC 9110 section 15.3.7).
    let headers: [String: String]

    /// Of what was stored for somebody else: afterwards it is left alone, seconds.
    static let longestStorage: Double = 24 * 3600

    /// As below, of bytes that are at hand.
    init?(
        request: URLRequest,
        response: URLResponse?,
        data: Data,
        continuing previous: ResumableData? = nil,
        hidden: HiddenFields? = nil,
        limits: Limits = Limits()
    ) {
        self.init(
            request: request,
            response: response,
            count: data.count,
            data: { data },
            continuing: previous,
            hidden: hidden,
            limits: limits
        )
    }

    /// What is to be kept of a load that was cut off after its response.
    ///
    /// - Parameters:
    ///   - count: of the bytes.
    ///   - data: all bytes from the first one on, asked for where they are worth it: those that were kept before, too, where the answer has continued
    ///     them.
    ///   - previous: what the request was to resume; it counts where the answer continues it.
    ///   - hidden: nothing unless it is said; what the request shows itself is seen.
    /// - Returns: nil where the rest cannot be asked for, or where it is not worth it.
    init?(
        request: URLRequest,
        response: URLResponse?,
        count: Int,
        data: () -> Data,
        continuing previous: ResumableData? = nil,
        hidden: HiddenFields? = nil,
        limits: Limits = Limits()
    ) {
        guard let response = response as? HTTPURLResponse, let url = request.url.flatMap(Self.place) else { return nil }
        let headers = response.lowercasedHeaders
        let previous = response.statusCode == 206 ? previous : nil
        guard let total = Self.total(response.statusCode, headers, previous) else { return nil }
        let hidden = hidden ?? HiddenFields(sent: request, known: request, scope: nil)
        // RFC 9111 section 3.3: a part is kept as the whole would be, or not at all.
        let merged = (previous?.headers ?? [:]).merging(headers) { $1 }
        guard HTTPFreshness.mayKeep(merged, status: 200, isAuthorized: hidden.isAuthorized),
            hidden.areIrrelevant(to: merged),
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
    }

    private static let keptHeaders: Set<String> = [
        "accept-ranges", "cache-control", "content-disposition", "content-language", "content-type", "date", "etag",
        "expires", "last-modified", "vary",
    ]

    /// Makes the request one for the rest.
    ///
    /// - Returns: false where it is for something else, or has a range of its own: it is left as it is.
    func resume(_ request: inout URLRequest) -> Bool {
        guard let place = request.url.flatMap(Self.place), place == url, (request.httpMethod ?? "GET") == "GET",
            ["Range", "If-Range"].allSatisfy({ request.value(forHTTPHeaderField: $0) == nil })
        else { return false }
        request.setValue("bytes=\(data.count)-", forHTTPHeaderField: "Range")
        request.setValue(validator, forHTTPHeaderField: "If-Range")
        return true
    }

    /// What the answer to a resumed request means.
    ///
    /// - Parameter response: nil where the load ended before there was any.
    func splice(with response: HTTPURLResponse?) -> Splice {
        guard let response else { return .keep }
        return splice(status: response.statusCode, headers: response.lowercasedHeaders)
    }

    /// What the failure of a resumed request means that brought no response: that of `DataLoader` for a status.
    func splice(after error: ImagePipeline.Error) -> Splice {
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

    /// Whether bytes from the first one on are all of the body.
    func isWhole(_ data: Data) -> Bool { data.count == total }

    /// The answer that the whole body belongs to: that which was kept, brought up to date by that for the rest (RFC
    /// 9111 section 3.4).
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
        // The origin has compared it already; one that sends another tag all the same has not.
        return headers["etag"].map { !validator.hasPrefix("\"") || $0 == validator } ?? true
    }

    /// A presigned URL has another query each time; what is beneath one key of the cache differs in nothing else.
    private static func place(_ url: URL) -> URL? {
        guard var parts = URLComponents(url: url, resolvingAgainstBaseURL: true) else { return nil }
        parts.scheme = parts.scheme?.lowercased()
        parts.host = parts.host?.lowercased()
        (parts.user, parts.password, parts.query, parts.fragment) = (nil, nil, nil, nil)
        return parts.url
    }

    /// Bytes of the whole body; nil where it cannot be resumed.
    private static func total(_ status: Int, _ headers: [String: String], _ previous: ResumableData?) -> Int? {
        // The bytes may have been decoded on the way: nobody could tell how many of the encoded ones they are.
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

    /// What may stand in `If-Range`. A date only where there is no entity tag, not even a weak one (RFC 9110
    /// section 13.1.5), and where the answer is from a later second: within one the picture may have changed again
    /// (section 8.8.2.2). All representations at a URL may have the same date, so that it says nothing where there are
    /// several.
    private static func strongValidator(_ headers: [String: String]) -> String? {
        if let etag = headers["etag"] { return isStrong(etag) ? etag : nil }
        guard let modified = headers["last-modified"], let changed = HTTPDate.parse(modified),
            let date = HTTPDate.parse(headers["date"]), date.timeIntervalSince(changed) >= 1,
            VaryKey.names(headers) == .none
        else { return nil }
        return modified
    }

    /// RFC 9110 section 8.8.3: in quotes, of visible characters.
    private static func isStrong(_ etag: String) -> Bool {
        let bytes = etag.utf8
        return bytes.count >= 2 && bytes.first == UInt8(ascii: "\"") && bytes.last == UInt8(ascii: "\"")
            && bytes.dropFirst().dropLast().allSatisfy { $0 == 0x21 || (0x23...0x7e).contains($0) || $0 >= 0x80 }
    }
}

// MARK: - In a cache

extension ResumableData {
    /// The same with its bytes in a file, if they are many.
    func spooled(_ spool: BodySpool) -> ResumableData {
        ResumableData(url, validator, total, spool.spooled(data), headers)
    }

    private init(_ url: URL, _ validator: String, _ total: Int, _ data: Data, _ headers: [String: String]) {
        self.url = url
        self.validator = validator
        self.total = total
        self.data = data
        self.headers = headers
    }

    /// What travels before the bytes.
    private struct Header: Codable {
        let url: URL
        let validator: String
        let total: Int
        let headers: [String: String]
        let count: Int
        /// Of the bytes, hex: a damaged part would spoil the picture, and no decoder must find it.
        let sha256: String
        /// Seconds since 1970.
        let stored: Double
    }

    /// One blob for a data cache, so that another worker can fetch the rest: `P1`, the header's length (4 bytes, little
    /// endian), the header as JSON, the bytes.
    func encoded(at now: Date = Date()) throws -> Data {
        let header = Header(
            url: url,
            validator: validator,
            total: total,
            headers: headers,
            count: data.count,
            sha256: SHA256.hash(data: data).hexDigits,
            stored: now.timeIntervalSince1970
        )
        let json = try JSONEncoder().encode(header)
        var blob = Data("P1".utf8)
        withUnsafeBytes(of: UInt32(json.count).littleEndian) { blob.append(contentsOf: $0) }
        blob.append(json)
        blob.append(data)
        return blob
    }

    /// Nil where the blob is not one of ours, damaged, or too old to be worth a question.
    init?(encoded blob: Data, at now: Date = Date()) {
        let bytes = blob.prefix(6)
        guard bytes.count == 6, bytes.starts(with: Data("P1".utf8)) else { return nil }
        let length = bytes.dropFirst(2).enumerated().reduce(0) { $0 | Int($1.element) << (8 * $1.offset) }
        guard blob.count >= 6 + length,
            // Another version's, or damaged: there is nothing to resume.
            let header = try? JSONDecoder().decode(Header.self, from: Data(blob.dropFirst(6).prefix(length)))
        else { return nil }
        let data = Data(blob.dropFirst(6 + length))
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
    }
}
