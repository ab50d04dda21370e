internal import Foundation
internal import FoundationNetworking

extension CachedData.Metadata {
    /// Header fields that later decisions need: they go first where there is little room, and alone with what is made of
    /// an original.
    private static let essentialHeaders: Set<String> = [
        "cache-control", "content-disposition", "content-language", "content-location", "date", "expires", "vary",
    ]
    /// Header fields of one connection or of one client (RFC 9110 section 7.6.1, RFC 9111 section 3.1), and those that
    /// have a place of their own in the metadata or are written anew for each hit.
    private static let omittedHeaders: Set<String> = [
        "age", "authentication-info", "authorization", "connection", "content-length", "content-type", "etag",
        "keep-alive", "last-modified", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization",
        "proxy-connection", "set-cookie", "set-cookie2", "te", "trailer", "transfer-encoding", "upgrade",
        "www-authenticate",
    ]
    /// Bytes of the kept header fields together.
    private static let headerLimit = 4096

    /// What is known of an origin's answer.
    ///
    /// - Parameters:
    ///   - headers: names in lower case.
    ///   - request: header fields as they were sent, names in any case.
    ///   - isAuthorized: as of `HTTPFreshness`; by default whether there is an `Authorization` among the header fields.
    ///   - requested: when the request was sent.
    ///   - heuristic: seconds for which it is fresh if it names no lifetime.
    ///   - received: when the answer was here; now by default.
    /// - Returns: nil where it must not be kept.
    init?(
        headers: [String: String],
        request: [String: String] = [:],
        status: Int = 200,
        isAuthorized: Bool? = nil,
        heuristic: Double = HTTPFreshness.defaultLifetime,
        requested: Date? = nil,
        received: Date = Date()
    ) {
        let freshness = HTTPFreshness(
            headers: headers,
            status: status,
            isAuthorized: isAuthorized ?? request.contains { $0.key.lowercased() == "authorization" },
            heuristic: heuristic,
            requested: requested,
            received: received
        )
        guard let lifetime = freshness.lifetime else { return nil }
        // RFC 9111 section 5.2.2.7: these fields are somebody's own, the rest is everybody's.
        let control = CacheControl(headers["cache-control"])
        let ours = headers.filter { !control.scope("private").names($0.key) }
        // Section 5.2.2.4: not to be handed on without asking; to ask with a validator is no handing on.
        let handedOn = ours.filter { !control.scope("no-cache").names($0.key) }
        self.init(
            type: handedOn["content-type"],
            etag: ours["etag"],
            lastModified: ours["last-modified"],
            lifetime: lifetime,
            staleWhileRevalidate: freshness.staleWhileRevalidate,
            staleIfError: freshness.staleIfError
        )
        self.status = status
        age = freshness.age
        vary = VaryKey(response: headers, request: request)?.fields
        self.headers = Self.stored(handedOn)
    }

    /// The header fields that are kept; nil if not even those fit that later decisions need.
    private static func stored(_ headers: [String: String]) -> [String: String]? {
        let connection = Set(HTTPFieldList.elements(headers["connection"] ?? "").map { $0.lowercased() })
        let storable = headers.filter { !omittedHeaders.contains($0.key) && !connection.contains($0.key) }
        func size(_ field: (key: String, value: String)) -> Int { field.key.utf8.count + field.value.utf8.count }
        var kept = storable.filter { essentialHeaders.contains($0.key) }
        var left = headerLimit - kept.reduce(0) { $0 + size($1) }
        if left < 0 { return nil }
        // The short ones first: what describes the image is short, and policies for browsers are long.
        let others = storable.filter { !essentialHeaders.contains($0.key) }
        for field in others.sorted(by: { (size($0), $0.key) < (size($1), $1.key) }) where size(field) <= left {
            kept[field.key] = field.value
            left -= size(field)
        }
        return kept
    }

    /// Whether a 304 is about this answer: it has the same entity tag, or none (RFC 9111 section 4.3.4). One about
    /// another answer confirms nothing, and the origin is to be asked without a condition.
    ///
    /// - Parameter headers: of the 304, names in lower case.
    func isConfirmed(by headers: [String: String]) -> Bool {
        guard let other = headers["etag"], !other.isEmpty, let etag else { return true }
        // Some servers weaken their tag on the way. The bytes are the stored ones in any case: it is no matter of
        // ranges.
        func opaque(_ tag: String) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...] }
        return opaque(etag) == opaque(other)
    }

    /// The header fields after a 304: those of the 304 replace the stored ones (RFC 9111 section 3.2).
    ///
    /// - Parameter headers: of the 304, names in lower case.
    func updated(by headers: [String: String]) -> [String: String] {
        // `Date` and `Age` are about the answer that has just come; `Date` is not needed where that has none.
        let stored = (self.headers ?? [:]).filter { $0.key != "date" }
        var merged = stored.merging(headers) { $1 }
        merged["etag"] = merged["etag"] ?? etag
        merged["last-modified"] = merged["last-modified"] ?? lastModified
        // About the bytes, which are the stored ones: some origins label the 304 itself.
        for name in ["content-encoding", "content-range"] { merged[name] = stored[name] }
        merged["content-type"] = updatedType(headers["content-type"])
        return merged
    }

    /// The stored type, unless the other one is the same with other parameters.
    private func updatedType(_ other: String?) -> String? {
        func essence(_ type: String) -> String { type.prefix { $0 != ";" && $0 != " " }.lowercased() }
        guard let type, let other, essence(type) == essence(other) else { return type }
        return other
    }

    /// What is known after a 304: its header fields replace those of the stored answer (RFC 9111 sections 3.2 and
    /// 4.3.4).
    ///
    /// - Parameter headers: names in lower case; the others are as of `init`.
    /// - Returns: nil where the entry must no longer be kept, or is not what the 304 is about.
    func refreshed(
        by headers: [String: String],
        request: [String: String] = [:],
        isAuthorized: Bool? = nil,
        heuristic: Double = HTTPFreshness.defaultLifetime,
        requested: Date? = nil,
        received: Date = Date()
    ) -> Self? {
        guard isConfirmed(by: headers) else { return nil }
        let refreshed = Self(
            headers: updated(by: headers),
            request: request,
            status: status ?? 200,
            isAuthorized: isAuthorized,
            heuristic: heuristic,
            requested: requested,
            received: received
        )
        guard var refreshed else { return nil }
        // What it varied by holds until the origin says otherwise.
        if headers["vary"] == nil { refreshed.vary = vary }
        (refreshed.width, refreshed.height) = (width, height)
        if self.headers == nil, headers["cache-control"] == nil, headers["expires"] == nil {
            // What was said before is known by its outcome only.
            refreshed.lifetime = lifetime
            refreshed.staleWhileRevalidate = staleWhileRevalidate
            refreshed.staleIfError = staleIfError
        }
        return refreshed
    }

    /// The answer that a caller gets of a 304: the stored one with the header fields of both.
    ///
    /// - Parameters:
    ///   - headers: of the 304, names in lower case.
    ///   - length: bytes of the stored body.
    func response(for url: URL, updatedBy headers: [String: String], length: Int) -> HTTPURLResponse? {
        let connection: Set<String> = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]
        var fields = updated(by: headers).filter { !connection.contains($0.key) }
        fields["content-length"] = String(length)
        return HTTPURLResponse(url: url, statusCode: status ?? 200, httpVersion: "HTTP/1.1", headerFields: fields)
    }

    /// Seconds since the origin made or confirmed the answer (RFC 9111 section 4.2.3).
    func currentAge(at now: Date) -> Double {
        let resident = stored.map { now.timeIntervalSince1970 - $0 } ?? 0
        return (age ?? 0) + max(0, resident)
    }

    /// Whether the answer is one for a request that sends these header fields (RFC 9111 section 4.1).
    ///
    /// - Parameter request: names in any case.
    func matches(request: [String: String]) -> Bool { VaryKey.matches(vary, request: request) }

    /// For that which is made of the entry now: it is as old, and was not stored yet.
    func inherited(at now: Date) -> Self {
        var inherited = self
        inherited.age = age.map { _ in currentAge(at: now) }
        inherited.stored = nil
        inherited.generation = nil
        // The other fields describe the original.
        inherited.headers = headers?.filter { Self.essentialHeaders.contains($0.key) }
        return inherited
    }

    /// What holds for that which is made of the entry now that it is stale: it is stale too, and served no longer.
    func aged(by staleness: Double) -> Self {
        var aged = self
        aged.lifetime = 0
        aged.staleWhileRevalidate = staleWhileRevalidate.map { max(0, $0 - staleness) }
        aged.staleIfError = staleIfError.map { max(0, $0 - staleness) }
        return aged
    }
}

extension CachedData {
    /// A rendition that has just been made.
    init(_ image: EncodedImage, _ format: Rendition.Format, of original: Metadata, at now: Date = Date()) {
        var metadata = original.inherited(at: now)
        metadata.type = format.mediaType
        metadata.width = image.size.width
        metadata.height = image.size.height
        metadata.notes = image.notes.isEmpty ? nil : image.notes
        self.init(data: image.data, metadata: metadata)
    }

    /// The same rendition, with what holds for its original now.
    func prolonged(by original: Metadata, at now: Date = Date()) -> CachedData {
        var metadata = original.inherited(at: now)
        metadata.type = self.metadata.type
        metadata.width = self.metadata.width
        metadata.height = self.metadata.height
        metadata.notes = self.metadata.notes
        return CachedData(data: data, metadata: metadata, checksum: checksum)
    }

    /// The answer of the origin as a hit has it, with `Age` (RFC 9111 section 4).
    func response(for url: URL, at now: Date = Date()) -> HTTPURLResponse? {
        var fields = metadata.headers ?? [:]
        fields["content-type"] = metadata.type
        fields["etag"] = metadata.etag
        fields["last-modified"] = metadata.lastModified
        fields["content-length"] = String(data.count)
        fields["age"] = String(Int(min(metadata.currentAge(at: now), CacheControl.longest)))
        return HTTPURLResponse(
            url: url,
            statusCode: metadata.status ?? 200,
            httpVersion: "HTTP/1.1",
            headerFields: fields
        )
    }
}
