internal import Foundation
internal import FoundationNetworking

// Answers a request's own condition or range from a stored, fresh entry (RFC 9111 section 4.3.2, RFC 9110 sections 13
// and 14). The origin gets the requests that cannot be answered here: several ranges, a range beyond the end,
// `If-Match`.
extension OriginalLoader {
    /// - Returns: nil if the origin must be asked.
    func storedAnswer(
        _ source: Source,
        _ options: OriginalRequestOptions,
        _ metrics: PipelineMetrics
    ) async -> Original? {
        guard options.wantsResponse, case .remote(let request) = source.location,
            (request.httpMethod ?? "GET") == "GET",
            !source.request.options.contains(.disableDiskCacheReads), let url = request.url,
            ["If-Match", "If-Unmodified-Since"].allSatisfy({ request.value(forHTTPHeaderField: $0) == nil })
        else { return nil }
        let plain = source.withoutConditions(request)
        let policy = plain.cachePolicy
        guard policy.allowsUnvalidated else { return nil }
        var found = await shared(plain)?.entry
        if found == nil { found = await plain.flights.lookUp([plain.key]).first ?? nil }
        guard let entry = found, entry.staleness == nil, entry.metadata.matches(request: plain.sentFields),
            policy.accepts(entry, at: Date()), let answer = entry.answer(to: request, url)
        else { return nil }
        let hit = hit(entry, metrics)
        return Original(
            data: answer.data,
            metadata: nil,
            response: answer.response,
            isFromCache: true,
            layer: hit.layer
        )
    }
}

extension Source {
    /// The same source without its own condition and range.
    fileprivate func withoutConditions(_ request: URLRequest) -> Source {
        var urlRequest = request
        for name in URLRequest.exclusiveFields { urlRequest.setValue(nil, forHTTPHeaderField: name) }
        var plain = ImageRequest(urlRequest: urlRequest)
        plain.imageID = self.request.imageID
        plain.originalName = self.request.originalName
        plain.credentialScope = self.request.credentialScope
        var source = Source(
            location: .remote(urlRequest),
            key: .original(of: plain),
            description: description,
            request: plain,
            flights: flights
        )
        source.hooks = hooks
        return source
    }
}

extension CachedData {
    /// The response to a conditional request or a range request.
    ///
    /// - Returns: nil for a range that only the origin can answer.
    fileprivate func answer(to request: URLRequest, _ url: URL) -> (data: Data, response: HTTPURLResponse)? {
        guard let whole = response(for: url) else { return nil }
        func answer(_ status: Int, _ data: Data, _ other: [String: String] = [:]) -> (Data, HTTPURLResponse)? {
            let fields = whole.lowercasedHeaders.merging(other) { $1 }
            return HTTPURLResponse(url: url, statusCode: status, httpVersion: "HTTP/1.1", headerFields: fields)
                .map { (data, $0) }
        }
        if isUnchanged(request) { return answer(304, Data()) }
        guard let value = request.value(forHTTPHeaderField: "Range"), isRangeWanted(request) else {
            return (data, whole)
        }
        // Another range unit, or no valid range: the field is ignored (RFC 9110 section 14.2).
        guard value.lowercased().hasPrefix("bytes=") else { return (data, whole) }
        guard let range = Self.range(value.dropFirst("bytes=".count), of: data.count) else { return nil }
        let part = data.dropFirst(range.lowerBound).prefix(range.count)
        return answer(
            206,
            Data(part),
            [
                "content-range": "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(data.count)",
                "content-length": String(range.count),
            ]
        )
    }

    /// Whether the response is 304. `If-Modified-Since` counts only without `If-None-Match`.
    private func isUnchanged(_ request: URLRequest) -> Bool {
        if let tags = request.value(forHTTPHeaderField: "If-None-Match") {
            func opaque(_ tag: Substring) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag }
            let asked = HTTPFieldList.elements(tags)
            guard let etag = metadata.etag else { return asked == ["*"] }
            return asked == ["*"] || asked.contains { opaque($0) == opaque(etag[...]) }
        }
        let own = HTTPDate.parse(metadata.lastModified) ?? HTTPDate.parse(metadata.headers?["date"])
        guard let date = HTTPDate.parse(request.value(forHTTPHeaderField: "If-Modified-Since")), let own else {
            return false
        }
        return own <= date
    }

    /// Whether `If-Range` is absent or names exactly these bytes, by strong comparison (RFC 9110 section 13.1.5).
    private func isRangeWanted(_ request: URLRequest) -> Bool {
        guard let validator = request.value(forHTTPHeaderField: "If-Range") else { return true }
        if validator.hasPrefix("\"") { return validator == metadata.etag }
        return !validator.hasPrefix("W/") && validator == metadata.lastModified
    }

    /// Parses one range of bytes: `0-99`, `100-` or `-5`.
    ///
    /// - Returns: nil for several ranges, for an invalid one, and for one that begins beyond the end.
    private static func range(_ text: Substring, of count: Int) -> Range<Int>? {
        let ends = HTTPFieldList.trimmed(text).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2 else { return nil }
        if ends[0].isEmpty {
            guard let last = ContentRange.number(ends[1]), last > 0, count > 0 else { return nil }
            return max(0, count - last)..<count
        }
        guard let first = ContentRange.number(ends[0]), first < count else { return nil }
        if ends[1].isEmpty { return first..<count }
        guard let last = ContentRange.number(ends[1]), last >= first else { return nil }
        // Not `last + 1`, which overflows if the caller named the largest integer.
        return first..<min(last, count - 1) + 1
    }
}
