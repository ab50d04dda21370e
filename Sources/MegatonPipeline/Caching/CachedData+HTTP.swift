internal import Crypto
package import Foundation
internal import FoundationNetworking

extension CachedData.Metadata {
    /// Header fields that later decisions need. They are stored first when space is short, and they are the only ones
    /// that a rendition inherits from its original.
    private static let essentialHeaders: Set<String> = [
        "cache-control", "content-disposition", "content-language", "content-location", "date", "expires", "vary",
    ]
    /// Header fields of one connection or of one client (RFC 9110 section 7.6.1, RFC 9111 section 3.1), and fields that
    /// have a property of their own in the metadata or are written anew for each hit.
    private static let omittedHeaders: Set<String> = [
        "age", "authentication-info", "authorization", "connection", "content-length", "content-type", "etag",
        "keep-alive", "last-modified", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization",
        "proxy-connection", "set-cookie", "set-cookie2", "te", "trailer", "transfer-encoding", "upgrade",
        "www-authenticate",
    ]
    /// The maximum total size of the stored header fields, bytes.
    private static let headerLimit = 4096

    /// Metadata of a response that an origin has sent.
    ///
    /// - Parameters:
    ///   - headers: names in lowercase.
    ///   - request: header fields as they were sent, names in any case.
    ///   - isAuthorized: as in `HTTPFreshness`. By default, whether the request has an `Authorization` field.
    ///   - requested: when the request was sent.
    ///   - heuristic: lifetime in seconds if the response names none.
    ///   - received: when the response arrived; now by default.
    /// - Returns: nil if the response must not be stored.
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
        self.init(freshness, headers: headers, request: request, status: status, requested: requested)
    }

    /// As above, for a response whose freshness is known. The dates are those that it was made of.
    init?(
        _ freshness: HTTPFreshness,
        headers: [String: String],
        request: [String: String],
        status: Int,
        requested: Date?
    ) {
        guard let lifetime = freshness.lifetime else { return nil }
        // RFC 9111 section 5.2.2.7: fields named by `private` belong to one user; the others may be shared.
        let control = CacheControl(headers["cache-control"])
        let ours = headers.filter { !control.scope("private").names($0.key) }
        // RFC 9111 section 5.2.2.4: fields named by `no-cache` must not be served without revalidation. The validators
        // stay usable, because sending one to the origin serves nothing.
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
        fetched = requested?.timeIntervalSince1970
        age = freshness.age
        vary = VaryKey(response: headers, request: request)?.fields
        self.headers = Self.stored(handedOn)
    }

    /// The header fields to store; nil if not even the essential ones fit.
    private static func stored(_ headers: [String: String]) -> [String: String]? {
        let connection = Set(HTTPFieldList.elements(headers["connection"] ?? "").map { $0.lowercased() })
        let storable = headers.filter { !omittedHeaders.contains($0.key) && !connection.contains($0.key) }
        func size(_ field: (key: String, value: String)) -> Int { field.key.utf8.count + field.value.utf8.count }
        var fitting = storable.filter { essentialHeaders.contains($0.key) }
        var left = headerLimit - fitting.reduce(0) { $0 + size($1) }
        if left < 0 { return nil }
        // Short fields first: those that describe the image are short, and policies for browsers are long.
        let others = storable.filter { !essentialHeaders.contains($0.key) }
        for field in others.sorted(by: { (size($0), $0.key) < (size($1), $1.key) }) where size(field) <= left {
            fitting[field.key] = field.value
            left -= size(field)
        }
        return fitting
    }

    /// Whether a 304 confirms this response: it has the same entity tag, or none (RFC 9111 section 4.3.4). A 304 with
    /// another tag confirms nothing, and the caller must repeat the request without a condition.
    ///
    /// - Parameter headers: those of the 304, names in lowercase.
    func isConfirmed(by headers: [String: String]) -> Bool {
        guard let other = headers["etag"], !other.isEmpty, let etag else { return true }
        // Compare weakly: some servers weaken their tag on the way. Strong comparison matters only for ranges, and here
        // the stored bytes are served as a whole.
        func opaque(_ tag: String) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...] }
        return opaque(etag) == opaque(other)
    }

    /// The header fields after a 304: its fields replace the stored ones (RFC 9111 section 3.2).
    ///
    /// - Parameter headers: those of the 304, names in lowercase.
    func updated(by headers: [String: String]) -> [String: String] {
        // `Date` and `Age` describe the response that has just arrived. If the 304 has no `Date`, none is needed.
        let stored = (self.headers ?? [:]).filter { $0.key != "date" }
        var merged = stored.merging(headers) { $1 }
        merged["etag"] = merged["etag"] ?? etag
        merged["last-modified"] = merged["last-modified"] ?? lastModified
        // These describe the bytes, which are the stored ones. Some origins describe the 304 itself.
        for name in ["content-encoding", "content-range"] { merged[name] = stored[name] }
        merged["content-type"] = updatedType(headers["content-type"])
        return merged
    }

    /// The stored type, unless the other one differs only in its parameters.
    private func updatedType(_ other: String?) -> String? {
        func essence(_ type: String) -> String { type.prefix { $0 != ";" && $0 != " " }.lowercased() }
        guard let type, let other, essence(type) == essence(other) else { return type }
        return other
    }

    /// Metadata after a 304: its header fields replace those of the stored response (RFC 9111 sections 3.2 and 4.3.4).
    ///
    /// - Parameter headers: names in lowercase. The other parameters are as for `init`.
    /// - Returns: nil if the entry must no longer be stored, or if the 304 does not confirm it.
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
        // The fields by which the stored response varies hold until the origin names others.
        if headers["vary"] == nil { refreshed.vary = vary }
        (refreshed.width, refreshed.height) = (width, height)
        (refreshed.source, refreshed.rendition, refreshed.address) = (source, rendition, address)
        refreshed.responder = responder
        if self.headers == nil, headers["cache-control"] == nil, headers["expires"] == nil {
            // The original directives were not stored; only the values computed from them were.
            refreshed.lifetime = lifetime
            refreshed.staleWhileRevalidate = staleWhileRevalidate
            refreshed.staleIfError = staleIfError
        }
        return refreshed
    }

    /// Digest of the URL of a response to a request that was redirected; nil if it was not.
    ///
    /// The whole URL, as its query may choose the resource. If a redirect leads to a URL with another signature each
    /// time, the entry is fetched anew.
    static func responder(of response: URLResponse?, to request: URLRequest) -> String? {
        guard let url = response?.url, let asked = request.url, ["http", "https"].contains(asked.scheme?.lowercased())
        else { return nil }
        func text(_ url: URL) -> Substring { url.absoluteString.prefix { $0 != "#" } }
        return text(url) == text(asked) ? nil : String(SHA256.hash(data: Data(text(url).utf8)).hexDigits.prefix(32))
    }

    /// The same after redirects that state a lifetime: no entry is used for longer without asking the first URL again.
    ///
    /// - Parameter redirects: seconds; nil if none states a lifetime.
    /// - Returns: nil if the entry would be stale at once, could not be used then, and could not be revalidated.
    func bounded(byRedirects redirects: Double?) -> Self? {
        guard let redirects else { return self }
        var bounded = self
        bounded.lifetime = min(lifetime, redirects)
        // Stale entries too are used without asking only while the redirects are fresh.
        let rest = redirects - lifetime
        bounded.staleWhileRevalidate = rest > 0 ? staleWhileRevalidate.map { min($0, rest) } : nil
        // Redirects without a lifetime must not be followed from memory, not even if the origin fails.
        if redirects <= 0 { bounded.staleIfError = nil }
        let isOfUse = bounded.lifetime > 0 || (bounded.staleWhileRevalidate ?? bounded.staleIfError ?? 0) > 0
        return isOfUse || etag != nil || lastModified != nil ? bounded : nil
    }

    /// The response for a caller whose request was answered with a 304: the stored response, updated by the header
    /// fields of the 304.
    ///
    /// - Parameters:
    ///   - headers: those of the 304, names in lowercase.
    ///   - length: bytes of the stored body.
    func response(for url: URL, updatedBy headers: [String: String], length: Int) -> HTTPURLResponse? {
        let connection: Set<String> = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]
        var fields = updated(by: headers).filter { !connection.contains($0.key) }
        fields["content-length"] = String(length)
        return HTTPURLResponse(url: url, statusCode: status ?? 200, httpVersion: "HTTP/1.1", headerFields: fields)
    }

    /// Seconds since the origin created or confirmed the response (RFC 9111 section 4.2.3).
    package func currentAge(at now: Date) -> Double {
        let resident = stored.map { now.timeIntervalSince1970 - $0 } ?? 0
        return (age ?? 0) + max(0, resident)
    }

    /// Whether the response matches a request that sends these header fields (RFC 9111 section 4.1).
    ///
    /// - Parameter request: names in any case.
    func matches(request: [String: String]) -> Bool { VaryKey.matches(vary, request: request) }

    /// Metadata for a rendition or image made from this entry now: it has the same age, and was not stored yet.
    func inherited(at now: Date) -> Self {
        var inherited = self
        inherited.age = age.map { _ in currentAge(at: now) }
        inherited.stored = nil
        inherited.generation = nil
        // The other fields describe the original.
        inherited.headers = headers?.filter { Self.essentialHeaders.contains($0.key) }
        return inherited
    }

    /// Metadata some time after its lifetime was counted, e.g. after a wait for a render slot: freshness counts from
    /// the response of the origin (RFC 9111 section 4.2), however late the entry is stored.
    func elapsed(_ seconds: Double) -> Self {
        guard seconds > 0 else { return self }
        var later = self
        if lifetime > seconds { later.lifetime -= seconds } else { later = aged(by: seconds - lifetime) }
        // The age of a stored entry follows from the time at which it was stored.
        if stored == nil { later.age = age.map { $0 + seconds } }
        return later
    }

    /// Metadata for output made from this entry while it is stale: the output is stale from the start, and its
    /// remaining windows are those of the entry.
    func aged(by staleness: Double) -> Self {
        var aged = self
        aged.lifetime = 0
        aged.staleWhileRevalidate = staleWhileRevalidate.map { max(0, $0 - staleness) }
        aged.staleIfError = staleIfError.map { max(0, $0 - staleness) }
        return aged
    }
}

extension CachedData {
    /// A rendition that was just produced.
    init(_ image: EncodedImage, _ rendition: Rendition, of original: Metadata, at now: Date = Date()) {
        var metadata = original.inherited(at: now)
        metadata.type = rendition.format.mediaType
        metadata.rendition = rendition.name
        metadata.width = image.size.width
        metadata.height = image.size.height
        metadata.notes = image.notes.isEmpty ? nil : image.notes
        metadata.score = image.score
        metadata.facts = image.facts?.packed
        self.init(data: image.data, metadata: metadata)
    }

    /// The same rendition, with freshness and validators of the revalidated original.
    func prolonged(by original: Metadata, at now: Date = Date()) -> CachedData {
        var metadata = original.inherited(at: now)
        metadata.type = self.metadata.type
        metadata.width = self.metadata.width
        metadata.height = self.metadata.height
        metadata.notes = self.metadata.notes
        metadata.score = self.metadata.score
        metadata.facts = self.metadata.facts
        metadata.rendition = self.metadata.rendition
        metadata.address = self.metadata.address ?? original.address
        return CachedData(data: data, metadata: metadata, checksum: checksum)
    }

    /// The origin's response as it is served from the cache, with `Age` (RFC 9111 section 4).
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
