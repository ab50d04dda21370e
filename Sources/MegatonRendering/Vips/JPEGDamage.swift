internal import CCodecs
internal import Foundation

/// Damage of a JPEG's coded data, and its severity. libjpeg pads truncated data and warns only once for a whole scan;
/// the missing part is gray.
struct JPEGDamage: Equatable {
    /// Severities, in ascending order.
    enum Kind: Int, Comparable {
        case warning = 1, error, truncated, fatal

        static func < (left: Kind, right: Kind) -> Bool { left.rawValue < right.rawValue }
    }

    let kind: Kind
    /// A description for messages, without a full stop.
    let text: String
    /// Whether it is in the coded data. The decoder has read the header then, so the kind of the image is supported.
    private let isInScan: Bool

    /// Decodes all data and discards the pixels, which takes a tenth to a third of the time of a rendition.
    ///
    /// - Returns: nil if the data is undamaged, if the deadline stopped the examination, or if there was no memory for
    ///   it.
    init?(examining data: Data, until deadline: RenderDeadline) {
        var report = megaton_jpeg_report()
        data.withUnsafeBytes { bytes in
            guard let start = bytes.assumingMemoryBound(to: UInt8.self).baseAddress else { return }
            withExtendedLifetime(deadline) {
                megaton_jpeg_examine(
                    start,
                    bytes.count,
                    RenderDeadline.isExpired,
                    Unmanaged.passUnretained(deadline).toOpaque(),
                    &report
                )
            }
        }
        guard let kind = Kind(rawValue: Int(report.worst.rawValue)) else { return nil }
        let text = withUnsafeBytes(of: report.text) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        self.kind = kind
        isInScan = report.is_in_scan != 0
        self.text = report.row < 0 ? text : "\(text), at row \(report.row) of \(report.rows)"
    }

    /// Finds components with missing scans. libjpeg shows them as gray, or blurred if a progressive image ends between
    /// two scans, and does not warn.
    ///
    /// - Parameter probe: Whether the image has several scans; if nil, the header is read.
    init?(ofScansIn data: Data, _ probe: ImageProbe?) {
        if let probe, !probe.isProgressive { return nil }
        guard let missing = JPEGScanCoverage(data)?.missing, missing > 0 else { return nil }
        kind = .truncated
        isInScan = true
        text = "premature end of the image: scans of \(missing) of its components are missing"
    }

    /// Whether the image is rendered in spite of the damage.
    func isTolerated(by failOn: Rendition.FailOn) -> Bool {
        switch failOn {
        case .nothing: kind < .fatal
        case .truncated: kind < .truncated
        case .error: kind < .error
        case .warning: false
        }
    }

    /// `.corruptImage`, or `.unsupportedFormat` if the header is of a kind that the decoder does not read.
    var error: ImageError {
        let reason = isTolerated(by: .nothing) ? Self.withRemedy(text) : text
        return isInScan ? .corrupt(reason) : .decoding(reason)
    }

    /// A message about damage that callers may tolerate.
    static func withRemedy(_ reason: String) -> String {
        "\(reason); set Rendition.failOn to .nothing to render it as far as it goes"
    }

    /// The note for an image that was rendered despite the damage.
    var note: String { Self.note(text) }

    /// - Parameter reason: Message of the decoder.
    static func note(_ reason: String) -> String { "\(RenderNotes.damage): \(reason)" }
}
