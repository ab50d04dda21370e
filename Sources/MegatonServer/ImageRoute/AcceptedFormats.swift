internal import MegatonPipeline

/// The formats that a client accepts beside JPEG, by its header `Accept` (RFC 9110 section 12.5.1).
struct AcceptedFormats {
    /// Those that are chosen by negotiation, the preferred one first.
    private static let negotiated: [Rendition.Format] = [.avif, .webp]
    /// Bytes of the header that are read; browsers send less than 200.
    private static let maximumLength = 1024

    /// Quality values of the formats that the header names. A pattern such as `image/*` counts for none: clients that
    /// cannot decode AVIF send it, too.
    private var qualities: [Rendition.Format: Double] = [:]

    /// - Parameter values: the values of all headers `Accept`.
    init(_ values: [String]) {
        let text = values.joined(separator: ",").lowercased()
        guard text.utf8.count <= Self.maximumLength else { return }
        for element in HTTPFieldList.elements(text) {
            let parts = element.split(separator: ";").map { part in part.filter { $0 != " " && $0 != "\t" } }
            guard let format = Self.negotiated.first(where: { $0.mediaType == parts.first }) else { continue }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 }
            qualities[format] = weight ?? 1
        }
    }

    /// The format for a URL that names none: of the allowed formats that the client accepts, the one with the highest
    /// quality value, or else JPEG, which all clients have.
    func best(among allowed: Set<Rendition.Format>) -> Rendition.Format {
        var best: (format: Rendition.Format, quality: Double)?
        for format in Self.negotiated where allowed.contains(format) {
            let quality = qualities[format] ?? 0
            if quality > best?.quality ?? 0 { best = (format, quality) }
        }
        return best?.format ?? .jpeg
    }
}
