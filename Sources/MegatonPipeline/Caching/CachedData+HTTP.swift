internal import Foundation
internal import FoundationNetworking

extension CachedData.Metadata {
    /// What a later decision needs, or whoever is handed a hit.
    private static let keptHeaders: Set<String> = [
        "cache-control", "content-disposition", "content-language", "content-location", "date", "expires",
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
    ///   - received: when the answer was here; now by default.
    /// - Returns: nil where it must not be kept.
    init?(
        headers: [String: String],
        request: [String: String] = [:],
        status: Int = 200,
        isAuthorized: Bool? = nil,
        requested: Date? = nil,
        received: Date = Date()
    ) {
        let freshness = HTTPFreshness(
            headers: headers,
            status: status,
            isAuthorized: isAuthorized ?? request.contains { $0.key.lowercased() == "authorization" },
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
        let kept = handedOn.filter { Self.keptHeaders.contains($0.key) }
        let size = kept.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        self.headers = size <= Self.headerLimit ? kept : nil
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

    /// What is known after a 304: its header fields replace those of the stored answer (RFC 9111 sections 3.2 and
    /// 4.3.4).
    ///
    /// - Parameter headers: names in lower case; the others are as of `init`.
    /// - Returns: nil where the entry must no longer be kept, or is not what the 304 is about.
    func refreshed(
        by headers: [String: String],
        request: [String: String] = [:],
        isAuthorized: Bool? = nil,
        requested: Date? = nil,
        received: Date = Date()
    ) -> Self? {
        guard isConfirmed(by: headers) else { return nil }
        // `Date` and `Age` are about the answer that has just come; `Date` is not needed where that has none.
        let stored = (self.headers ?? [:]).filter { $0.key != "date" }
        var merged = stored.merging(headers) { $1 }
        merged["etag"] = merged["etag"] ?? etag
        merged["last-modified"] = merged["last-modified"] ?? lastModified
        // The bytes are the stored ones, and so is their type: some origins label the 304 itself.
        merged["content-type"] = type
        let refreshed = Self(
            headers: merged,
            request: request,
            status: status ?? 200,
            isAuthorized: isAuthorized,
            requested: requested,
            received: received
        )
        guard var refreshed else { return nil }
        // What it varied by holds until the origin says otherwise.
        if headers["vary"] == nil { refreshed.vary = vary }
        if self.headers == nil, headers["cache-control"] == nil, headers["expires"] == nil {
            // What was said before is known by its outcome only.
            refreshed.lifetime = lifetime
            refreshed.staleWhileRevalidate = staleWhileRevalidate
            refreshed.staleIfError = staleIfError
        }
        return refreshed
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
