internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCluster
internal import MegatonPipeline
internal import NIOCore

/// An image that was made or found, and its response.
struct RenderedImage: Sendable {
    let data: Data
    let format: Rendition.Format
    /// SHA-256 of the data in hex.
    let checksum: String
    /// Nil if caches must not store it.
    let freshness: RenditionFreshness?
    /// The time at which the original was changed, with its text, as the origin states it; nil if it does not, or in an
    /// obsolete form.
    let lastModified: (date: Date, text: String)?

    init(
        data: Data,
        format: Rendition.Format,
        checksum: String? = nil,
        freshness: RenditionFreshness?,
        lastModified: String? = nil
    ) {
        self.data = data
        self.format = format
        self.checksum = checksum ?? Checksum.sha256(data)
        self.freshness = freshness
        // The obsolete forms have other lengths, and a server must not send them (RFC 9110 section 5.6.7).
        let text = lastModified.flatMap { $0.utf8.count == Self.dateLength ? $0 : nil }
        self.lastModified = text.flatMap { text in HTTPDate.parse(text).map { (date: $0, text: text) } }
    }

    private static let dateLength = "Sun, 06 Nov 1994 08:49:37 GMT".utf8.count

    init(_ response: RenditionResponse) {
        self.init(
            data: response.data,
            format: response.rendition.format,
            checksum: response.checksum,
            freshness: response.freshness,
            lastModified: response.original?.lastModified
        )
    }

    /// A strong validator: equal for equal bytes only. Half of the digits distinguish billions of images.
    var entityTag: String { "\"\(checksum.prefix(32))\"" }

    // MARK: - Response

    /// A year: caches need not understand more.
    private static let longestAge = 365 * 24 * 3600.0

    /// The response to GET; the router makes that to HEAD from it.
    ///
    /// - Parameters:
    ///   - options: those of the URL.
    ///   - now: seconds since 1970.
    ///   - maximumAge: seconds for which caches use an image whose origin states no lifetime.
    ///   - sender: makes the body.
    ///   - eventLoop: of the connection.
    ///   - metrics: counts refusals of the sender.
    /// - Throws: an error with the status 412 if the client wants another version only, 416 if the range has no byte of
    ///   the image, or 503 if there is no memory to send it.
    func response(
        to request: Request,
        _ options: ImageOptions,
        at now: Int,
        maximumAge: Int,
        by sender: ImageSender,
        on eventLoop: any EventLoop,
        _ metrics: ImageMetrics
    ) throws(APIError) -> Response {
        var headers: HTTPFields = [
            .eTag: entityTag, .cacheControl: cacheControl(options, at: now, maximumAge: maximumAge),
            .xContentTypeOptions: "nosniff",
        ]
        if options.format == nil { headers[.vary] = "Accept" }
        // A server must not send a time of the future (RFC 9110 section 8.8.2.1).
        if let lastModified, lastModified.date.timeIntervalSince1970 <= Double(now) {
            headers[.lastModified] = lastModified.text
        }
        guard isWanted(by: request) else {
            throw APIError(
                .preconditionFailed,
                "The image is another one than the request demands: its ETag is \(entityTag).",
                headers: [.eTag: entityTag]
            )
        }
        if isKnown(to: request) { return Response(status: .notModified, headers: headers) }
        headers[.contentType] = format.mediaType
        headers[.acceptRanges] = "bytes"
        if let disposition = ContentDisposition(options).value { headers[.contentDisposition] = disposition }
        switch range(of: request) {
        case .whole:
            // HEAD needs the length only.
            let body = try metrics.counting(.sending) { () throws(APIError) in
                try request.method == .get
                    ? sender.body(data, on: eventLoop) : ImageSender.sharedBody(data, on: eventLoop)
            }
            return Response(status: .ok, headers: headers, body: body)
        case .part(let part):
            headers[.contentRange] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(data.count)"
            // A copy: a slice would keep the whole image in memory while it is sent.
            let bytes = Data(data.dropFirst(part.lowerBound).prefix(part.count))
            let body = try metrics.counting(.sending) { () throws(APIError) in try sender.body(bytes, on: eventLoop) }
            return Response(status: .partialContent, headers: headers, body: body)
        case .unsatisfiable:
            throw APIError(
                .rangeNotSatisfiable,
                "No byte of the image is in the range: the image has \(data.count) bytes.",
                headers: [.contentRange: "bytes */\(data.count)"]
            )
        }
    }

    /// Whether the image is a version that the client demands (RFC 9110 sections 13.1.1 and 13.1.4: tags are compared
    /// strongly, and a time counts without tags only).
    private func isWanted(by request: Request) -> Bool {
        let tags = request.headers[values: .ifMatch]
        if !tags.isEmpty {
            return tags.flatMap { HTTPFieldList.elements($0) }.contains { $0 == "*" || $0 == entityTag }
        }
        guard let lastModified, let time = HTTPDate.parse(request.headers[.ifUnmodifiedSince]) else { return true }
        return lastModified.date <= time
    }

    /// Whether the client has the image already (RFC 9110 sections 13.1.2 and 13.1.3: tags are compared weakly, and a
    /// time counts without tags only).
    private func isKnown(to request: Request) -> Bool {
        let tags = request.headers[values: .ifNoneMatch]
        if !tags.isEmpty {
            return tags.flatMap { HTTPFieldList.elements($0) }.contains { tag in
                tag == "*" || (tag.hasPrefix("W/") ? tag.dropFirst(2) : tag) == entityTag
            }
        }
        guard let lastModified, let time = HTTPDate.parse(request.headers[.ifModifiedSince]) else { return false }
        return lastModified.date <= time
    }

    private func range(of request: Request) -> ByteRange {
        // A range is for GET only (RFC 9110 section 14.2), and for the version that the client has.
        guard request.method == .get else { return .whole }
        if let version = request.headers[.ifRange], version != entityTag { return .whole }
        return ByteRange(request.headers[.range], of: data.count)
    }

    /// How long clients and caches in between may use the image: as long as the origin allows for its original, and not
    /// beyond the end of the URL.
    private func cacheControl(_ options: ImageOptions, at now: Int, maximumAge: Int) -> String {
        guard let freshness else { return "no-store" }
        let limit = min(options.expiry.map { max(0, Double($0 - now)) } ?? Self.longestAge, Self.longestAge)
        func seconds(_ value: Double) -> Int { Int(min(max(0, value), limit)) }
        guard freshness.isStated else {
            // The origin states nothing, so that the operator's default applies to staleness, too.
            let age = seconds(Double(maximumAge))
            let rest = Int(limit) - age
            let window = freshness.mayBeStale ? min(Double(age), Double(rest)) : 0
            return "public, max-age=\(age)" + Self.window(window)
        }
        let age = seconds(freshness.lifetime)
        var text = "public, max-age=\(min(age, freshness.clientLifetime.map(seconds) ?? age))"
        if let own = freshness.clientLifetime, own < freshness.lifetime { text += ", s-maxage=\(age)" }
        // RFC 9111 section 5.2.2.2. `no-cache` is the same with a lifetime of 0.
        guard freshness.mayBeStale else { return text + ", must-revalidate" }
        return text + Self.window(min(freshness.staleWhileRevalidate ?? 0, limit - Double(age)))
    }

    private static func window(_ seconds: Double) -> String {
        seconds >= 1 ? ", stale-while-revalidate=\(Int(seconds))" : ""
    }
}

/// The header `Content-Disposition` (RFC 6266) by the options `filename` and `return_attachment`.
struct ContentDisposition {
    /// Nil without these options.
    let value: String?

    init(_ options: ImageOptions) {
        guard options.isAttachment || options.fileName != nil else {
            value = nil
            return
        }
        let kind = options.isAttachment ? "attachment" : "inline"
        guard let name = options.fileName else {
            value = kind
            return
        }
        // For clients that read only ASCII, and without the characters that end a quoted text.
        let plain = String(
            decoding: name.unicodeScalars.map { scalar -> UInt8 in
                scalar.isASCII && scalar != "\"" && scalar != "%" ? UInt8(scalar.value) : UInt8(ascii: "_")
            },
            as: UTF8.self
        )
        value = "\(kind); filename=\"\(plain)\"; filename*=UTF-8''\(Self.encoded(name))"
    }

    /// Percent-encoding of RFC 8187 section 3.2.1.
    private static func encoded(_ name: String) -> String {
        name.utf8.reduce(into: "") { text, byte in
            if TokenFile.isWordByte(byte) {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let digits = String(byte, radix: 16, uppercase: true)
                text += "%" + (digits.count == 1 ? "0" : "") + digits
            }
        }
    }
}
