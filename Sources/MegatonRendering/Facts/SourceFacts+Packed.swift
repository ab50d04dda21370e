internal import Foundation

/// The form of the facts in the header of a cache entry: Base64 of about 50 bytes, and of the texts of EXIF if it has
/// any. JSON would take five times as much of each entry.
extension SourceFacts {
    /// Version of the form. A reader ignores facts of another version, as if there were none.
    private static let version: UInt8 = 1
    /// Formats by their codes. Append only: codes are in caches.
    private static let formats: [AssetType] = [.jpeg, .png, .gif, .webp, .avif, .heic, .tiff, .svg, .jxl]

    /// Facts that are there, one bit for each.
    private struct Flags: OptionSet {
        let rawValue: UInt8

        static let alpha = Flags(rawValue: 1)
        static let animated = Flags(rawValue: 2)
        static let c2pa = Flags(rawValue: 4)
        static let gainMap = Flags(rawValue: 8)
        static let color = Flags(rawValue: 16)
        static let perceptualHash = Flags(rawValue: 32)
        static let exif = Flags(rawValue: 64)
    }

    /// Nil if the format has no code.
    package var packed: String? {
        guard let format = Self.formats.firstIndex(where: { $0.description == format }) else { return nil }
        var flags: Flags = []
        if hasAlpha { flags.insert(.alpha) }
        if isAnimated { flags.insert(.animated) }
        if hasC2PA { flags.insert(.c2pa) }
        if hasGainMap { flags.insert(.gainMap) }
        if dominantColor != nil { flags.insert(.color) }
        if perceptualHash != nil { flags.insert(.perceptualHash) }
        if exif != nil { flags.insert(.exif) }
        var data = Data([Self.version, flags.rawValue, UInt8(format) << 4 | UInt8(orientation & 15)])
        for number in [width, height, bytes, frames] { Self.append(number, to: &data) }
        if let color = dominantColor { data += [color.red, color.green, color.blue] }
        if let hash = perceptualHash { withUnsafeBytes(of: hash.bigEndian) { data.append(contentsOf: $0) } }
        Self.append(thumbHash ?? Data(), to: &data)
        if let exif {
            for text in [exif.date, exif.make, exif.model] { Self.append(Data((text ?? "").utf8), to: &data) }
        }
        return data.base64EncodedString()
    }

    /// Nil for another version, and for a text that is damaged.
    package init?(packed: String) {
        guard let data = Data(base64Encoded: packed), data.first == Self.version else { return nil }
        var reader = PackedReader(bytes: [UInt8](data.dropFirst()))
        guard let flags = reader.byte().map(Flags.init), let code = reader.byte(), code >> 4 < Self.formats.count,
            (1...8).contains(code & 15), let width = reader.number(), let height = reader.number(),
            let bytes = reader.number(), let frames = reader.number()
        else { return nil }
        self.init(
            width: width,
            height: height,
            bytes: bytes,
            format: Self.formats[Int(code >> 4)].description,
            orientation: Int(code & 15),
            frames: frames,
            isAnimated: flags.contains(.animated),
            hasAlpha: flags.contains(.alpha),
            hasC2PA: flags.contains(.c2pa),
            hasGainMap: flags.contains(.gainMap)
        )
        if flags.contains(.color) {
            guard let color = reader.part(3) else { return nil }
            dominantColor = Color(red: color[0], green: color[1], blue: color[2])
        }
        if flags.contains(.perceptualHash) {
            guard let hash = reader.part(8) else { return nil }
            perceptualHash = hash.reduce(0) { $0 << 8 | UInt64($1) }
        }
        guard let hash = reader.block() else { return nil }
        thumbHash = hash.isEmpty ? nil : Data(hash)
        if flags.contains(.exif) {
            guard let date = reader.block(), let make = reader.block(), let model = reader.block() else { return nil }
            func text(_ bytes: [UInt8]) -> String? { bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self) }
            exif = EXIF(date: text(date), make: text(make), model: text(model))
        }
        if !reader.isAtEnd { return nil }
    }

    /// Appends seven bits a byte, the lowest ones first; the highest bit says that more follow.
    private static func append(_ number: Int, to data: inout Data) {
        var rest = UInt64(max(0, number))
        while rest >= 128 {
            data.append(UInt8(truncatingIfNeeded: rest) | 128)
            rest >>= 7
        }
        data.append(UInt8(truncatingIfNeeded: rest))
    }

    /// Appends the length and the bytes.
    private static func append(_ block: Data, to data: inout Data) {
        let block = block.prefix(255)
        data.append(UInt8(block.count))
        data += block
    }
}

/// Reads the packed form. Each method returns nil if the bytes end before.
private struct PackedReader {
    let bytes: [UInt8]
    private var index = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    mutating func byte() -> UInt8? { part(1)?.first }

    mutating func part(_ count: Int) -> [UInt8]? {
        guard count <= bytes.count - index else { return nil }
        defer { index += count }
        return Array(bytes[index..<(index + count)])
    }

    mutating func block() -> [UInt8]? { byte().flatMap { part(Int($0)) } }

    /// A number of at most 56 bits.
    mutating func number() -> Int? {
        var number = 0
        for shift in stride(from: 0, to: 56, by: 7) {
            guard let byte = byte() else { return nil }
            number |= Int(byte & 127) << shift
            if byte < 128 { return number }
        }
        return nil
    }
}
