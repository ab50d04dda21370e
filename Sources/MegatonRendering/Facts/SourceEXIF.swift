internal import Foundation

/// Reads the date, the make and the model of an EXIF block (CIPA DC-008 section 4.6).
enum SourceEXIF {
    /// Longest text that is kept, in bytes. Names of cameras have about twenty.
    static let longestText = 32

    private static let (make, model, details) = (0x010F, 0x0110, 0x8769)
    private static let (dateTimeOriginal, offsetTimeOriginal) = (0x9003, 0x9011)

    /// - Parameter bytes: Begin with a TIFF header.
    /// - Returns: nil if none of the fields is there.
    static func read(_ bytes: UnsafeRawBufferPointer) -> SourceFacts.EXIF? {
        guard let tiff = TIFFReader(bytes), let first = tiff.first, let entries = tiff.entries(at: first) else {
            return nil
        }
        var exif = SourceFacts.EXIF()
        for entry in entries {
            switch entry.tag {
            case make: exif.make = exif.make ?? tiff.text(entry).flatMap(kept)
            case model: exif.model = exif.model ?? tiff.text(entry).flatMap(kept)
            case details where entry.kind == 4:
                if let start = tiff.number(entry.value, bytes: 4), let details = tiff.entries(at: start) {
                    exif.date = exif.date ?? date(details, tiff)
                }
            default: break
            }
        }
        return exif == SourceFacts.EXIF() ? nil : exif
    }

    private static func date(_ entries: [TIFFReader.Entry], _ tiff: TIFFReader) -> String? {
        func text(_ tag: Int) -> String? { entries.first { $0.tag == tag }.flatMap(tiff.text) }
        guard let date = text(dateTimeOriginal).flatMap(isoDate) else { return nil }
        return date + (text(offsetTimeOriginal).flatMap(isoOffset) ?? "")
    }

    /// The form of ISO 8601 for `YYYY:MM:DD HH:MM:SS`; nil if a field is blank, as in unknown dates, or impossible.
    private static func isoDate(_ text: String) -> String? {
        let bytes = Array(text.utf8)
        guard bytes.count == 19 else { return nil }
        func number(_ start: Int, _ count: Int) -> Int? {
            bytes[start..<(start + count)].reduce(0) { sum, byte in
                sum.flatMap { (0x30...0x39).contains(byte) ? $0 * 10 + Int(byte) - 0x30 : nil }
            }
        }
        guard let year = number(0, 4), let month = number(5, 2), let day = number(8, 2), let hour = number(11, 2),
            let minute = number(14, 2), let second = number(17, 2), year > 0, (1...12).contains(month),
            (1...31).contains(day), hour < 24, minute < 60, second <= 60
        else { return nil }
        func part(_ start: Int, _ count: Int) -> String {
            String(decoding: bytes[start..<(start + count)], as: UTF8.self)
        }
        return "\(part(0, 4))-\(part(5, 2))-\(part(8, 2))T\(part(11, 2)):\(part(14, 2)):\(part(17, 2))"
    }

    /// The offset `+HH:MM` or `-HH:MM`; nil if it is blank.
    private static func isoOffset(_ text: String) -> String? {
        let bytes = Array(text.utf8)
        let digits = [1, 2, 4, 5]
        guard bytes.count == 6, "+-".utf8.contains(bytes[0]), bytes[3] == UInt8(ascii: ":"),
            digits.allSatisfy({ (0x30...0x39).contains(bytes[$0]) })
        else { return nil }
        return text
    }

    /// Drops control characters, surrounding spaces, and characters beyond the limit.
    private static func kept(_ text: String) -> String? {
        let plain = text.unicodeScalars.filter { $0.value >= 0x20 && $0.value != 0x7F }
        var kept = String(String.UnicodeScalarView(plain)).trimmingCharacters(in: .whitespaces)
        while kept.utf8.count > longestText { kept.removeLast() }
        return kept.isEmpty ? nil : kept
    }
}
