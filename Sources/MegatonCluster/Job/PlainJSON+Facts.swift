internal import Foundation
internal import MegatonCore
internal import MegatonPipeline

extension PlainJSON {
    /// Writes the facts of an outcome as `SourceFacts` encodes itself.
    mutating func field(_ facts: SourceFacts) {
        name("facts")
        open("{")
        if facts.isAnimated { field("animated", true) }
        field("bytes", facts.bytes)
        if facts.hasC2PA { field("c2pa", true) }
        field("dominantColor", facts.dominantColor?.description)
        if let exif = facts.exif {
            name("exif")
            open("{")
            field("date", exif.date)
            field("make", exif.make)
            field("model", exif.model)
            close("}")
        }
        field("format", facts.format)
        if facts.frames > 1 { field("frames", facts.frames) }
        if facts.hasGainMap { field("gainMap", true) }
        field("hasAlpha", facts.hasAlpha)
        field("height", facts.height)
        field("orientation", facts.orientation)
        field("phash", facts.perceptualHashText)
        field("thumbHash", facts.thumbHash?.base64EncodedString())
        field("width", facts.width)
        close("}")
    }
}

extension PlainJSONReader {
    /// The facts that each source has.
    private static let factsOfAll: Set = ["width", "height", "bytes", "format", "orientation"]

    /// Reads facts as `SourceFacts` decodes itself.
    mutating func facts() -> SourceFacts? {
        var facts = SourceFacts(width: 0, height: 0, bytes: 0, format: "", orientation: 1)
        let isRead = object(with: Self.factsOfAll) { reader, name in
            switch name {
            case "width": return keep(reader.int(), in: &facts.width)
            case "height": return keep(reader.int(), in: &facts.height)
            case "bytes": return keep(reader.int(), in: &facts.bytes)
            case "format": return keep(reader.string(), in: &facts.format)
            case "orientation": return keep(reader.int(), in: &facts.orientation)
            case "frames": return keep(reader.int(), in: &facts.frames)
            case "animated": return keep(reader.bool(), in: &facts.isAnimated)
            case "hasAlpha": return keep(reader.bool(), in: &facts.hasAlpha)
            case "c2pa": return keep(reader.bool(), in: &facts.hasC2PA)
            case "gainMap": return keep(reader.bool(), in: &facts.hasGainMap)
            case "thumbHash": return keep(reader.string().flatMap { Data(base64Encoded: $0) }, in: &facts.thumbHash)
            case "dominantColor": return keep(reader.string().flatMap { Color(hex: $0) }, in: &facts.dominantColor)
            // EXIF, and hashes that few ask for.
            default: return false
            }
        }
        return isRead ? facts : nil
    }
}
