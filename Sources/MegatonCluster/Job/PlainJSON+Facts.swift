internal import Foundation
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
