internal import CDecoders
internal import Foundation

/// Damage of a JPEG's coded data, and its severity. libjpeg pads truncated data and warns only once for a whole scan;
/// the missing part is gray.
package struct JPEGDamage: Equatable {
    /// Severities, in ascending order.
    enum Kind: Int, Comparable {
        case warning = 1, error, truncated, fatal

        static func < (left: Kind, right: Kind) -> Bool { left.rawValue < right.rawValue }
    }

    let kind: Kind
    /// A description for messages, without a full stop.
    let text: String

    /// Decodes all data and discards the pixels, which takes a tenth to a third of the time of a rendition.
    ///
    /// - Returns: nil if the data is undamaged, or if the deadline stopped the examination.
    init?(examining data: Data, until deadline: RenderDeadline) {
        var report = megaton_jpeg_report()
        data.withUnsafeBytes { bytes in
            guard let start = bytes.assumingMemoryBound(to: UInt8.self).baseAddress else { return }
            withExtendedLifetime(deadline) {
                megaton_jpeg_examine(
                    start,
                    bytes.count,
                    { context in
                        guard let context else { return 0 }
                        return Unmanaged<RenderDeadline>.fromOpaque(context).takeUnretainedValue().isExpired ? 1 : 0
                    },
                    Unmanaged.passUnretained(deadline).toOpaque(),
                    &report
                )
            }
        }
        guard let kind = Kind(rawValue: Int(report.worst.rawValue)) else { return nil }
        let text = withUnsafeBytes(of: report.text) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        self.kind = kind
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
        text = "premature end of the image: scans of \(missing) of its components are missing"
    }

    /// Whether the image is rendered despite the damage.
    func isTolerated(by failOn: Rendition.FailOn) -> Bool {
        switch failOn {
        case .nothing: kind < .fatal
        case .truncated: kind < .truncated
        case .error: kind < .error
        case .warning: false
        }
    }

    var error: ImageError {
        ImageError(.corruptImage, "the image cannot be decoded: \(text).")
    }

    /// The note for an image that was rendered despite the damage.
    var note: String { Self.note(text) }

    /// - Parameter reason: Message of the decoder.
    static func note(_ reason: String) -> String { "the image is damaged, and rendered as far as it goes: \(reason)" }
}

/// Counts the components that the scans of a JPEG cover, for progressive ones by coefficient (ITU-T T.81 annexes B.2.2,
/// B.2.3 and G.1.1.1).
struct JPEGScanCoverage {
    /// Components of the frame with a coefficient that no scan contains. Ignores the precision of coefficients.
    private(set) var missing = 0

    /// - Returns: nil if a header cannot be read; the decoder reports the reason.
    init?(_ data: Data) {
        let found: Int? = data.withUnsafeBytes { bytes in
            // Missing coefficients of each component, as a bit mask.
            var components: [UInt8: UInt64]?
            var (isProgressive, index) = (false, 2)
            // `HeaderBounds` has limited the number of segments.
            while let mark = HeaderBounds.firstMark(in: bytes, from: index), mark + 3 < bytes.count {
                let marker = bytes[mark + 1]
                if marker == 0xFF {
                    index = mark + 1
                    continue
                }
                if marker == 0 || marker == 0x01 || (0xD0...0xD8).contains(marker) {
                    index = mark + 2
                    continue
                }
                if marker == 0xD9 { break }
                let end = mark + 2 + (Int(bytes[mark + 2]) << 8 | Int(bytes[mark + 3]))
                guard end <= bytes.count else { break }
                let isFrame = (0xC0...0xCF).contains(marker) && ![0xC4, 0xC8, 0xCC].contains(marker)
                if isFrame, components == nil {
                    guard mark + 10 <= end, mark + 10 + 3 * Int(bytes[mark + 9]) <= end else { return nil }
                    var all: [UInt8: UInt64] = [:]
                    for component in 0..<Int(bytes[mark + 9]) { all[bytes[mark + 10 + 3 * component]] = UInt64.max }
                    components = all
                    isProgressive = [0xC2, 0xC6, 0xCA, 0xCE].contains(marker)
                } else if marker == 0xDA {
                    guard mark + 5 <= end, mark + 5 + 2 * Int(bytes[mark + 4]) <= end else { return nil }
                    let band = mark + 5 + 2 * Int(bytes[mark + 4])
                    var coefficients = UInt64.max
                    if isProgressive {
                        guard band + 2 <= end, bytes[band] <= bytes[band + 1], bytes[band + 1] < 64 else { return nil }
                        coefficients =
                            UInt64.max << UInt64(bytes[band]) & UInt64.max >> UInt64(63 - bytes[band + 1])
                    }
                    for scan in 0..<Int(bytes[mark + 4]) {
                        let component = bytes[mark + 5 + 2 * scan]
                        guard let left = components?[component] else { continue }
                        components?[component] = left & ~coefficients == 0 ? nil : left & ~coefficients
                    }
                    // Usually the only scan, or the first of several, covers everything.
                    if components?.isEmpty == true { return 0 }
                }
                index = end
            }
            return components?.count
        }
        guard let found else { return nil }
        missing = found
    }
}
