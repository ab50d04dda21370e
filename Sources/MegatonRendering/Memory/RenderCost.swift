/// Peak memory that a render needs at most, estimated from the header.
package struct RenderCost: Sendable, Equatable {
    package var bytes: Int
    /// Whether decoding or encoding buffers the whole image or animation. Such renders wait in a queue of their own.
    package var isBuffered: Bool

    package init(bytes: Int, isBuffered: Bool) {
        self.bytes = bytes
        self.isBuffered = isBuffered
    }

    /// Adds bytes that are read at the same time. The sum is capped at `limit`, so that a large body alone does not
    /// make a render inadmissible.
    package func adding(_ more: Int, within limit: Int) -> RenderCost {
        RenderCost(
            bytes: max(bytes, min(bytes.addingReportingOverflow(more).partialValue, limit)),
            isBuffered: isBuffered
        )
    }
}

extension RenderPlan {
    /// Bytes for each channel of each pixel of a baseline JPEG.
    static let baselineJPEGFactor = 0.25
    /// The same for a progressive JPEG that libjpeg decodes: coefficients of all scans, two bytes each.
    static let progressiveJPEGFactor = 2.0

    /// Bytes for each channel of each source pixel: resident memory of a thumbnail of 32 megapixels, measured with
    /// libvips 8.14.1. Formats that are decoded row by row need a few hundred rows only.
    private var decodingFactor: Double {
        switch probe.type {
        case .jpeg: probe.isProgressive ? Self.progressiveJPEGFactor : Self.baselineJPEGFactor
        case .png: probe.isProgressive ? 1.5 : 0.5
        // Planes of 10 bits, and their conversion to RGB.
        case .avif, .heic: 3
        case .jxl: 4
        // A few canvases of four channels each.
        case .gif: 3
        case .webp: 1.5
        default: 1
        }
    }

    /// Bytes of the decoded planes, plus the coefficients of a progressive JPEG.
    private func planes(of pass: Pass, _ page: Double) -> Double {
        let samples = page * (probe.planes?.samples ?? 3)
        let shrink = Double(shrink(pass))
        return samples / (shrink * shrink) + (probe.isProgressive ? samples * 2 : 0)
            + scalerRows(of: pass, Double(probe.width) / shrink, Double(probe.height) / shrink)
    }

    /// Bytes of the rows that the scaler keeps of a plane, of two bytes for each sample: those of six rows of the
    /// smallest result (Lanczos3), and no more than there are.
    private func scalerRows(of pass: Pass, _ width: Double, _ height: Double) -> Double {
        let orientation = EXIFOrientation(probe.orientation)
        let least = pass.steps.map { orientation.turned(steps[$0].scaled).height }.min() ?? 1
        return 2 * width * min(6 * height / Double(max(1, least)), height)
    }

    /// Bytes of the decoded planes of a pass that needs pixels, and of the pixels at its base. The samples of PNG and
    /// WebP images are in memory twice: as rows or pixels, and as planes.
    private func planarPixels(of pass: Pass, _ page: Double) -> Double {
        let rows = scalerRows(of: pass, Double(probe.width), Double(probe.height))
        let decoded = probe.type == .jpeg ? planes(of: pass, page) : 2 * page * Double(probe.bands) + rows
        return decoded + Double(pass.base.width) * Double(pass.base.height) * 8
    }

    /// Bytes for each pixel of the encoder's input.
    ///
    /// - Parameters:
    ///   - pixels: of the result.
    ///   - usesPlanes: Whether it is made from planes.
    private static func encodingFactor(_ rendition: Rendition, pixels: Double, usesPlanes: Bool) -> Double {
        switch rendition.format {
        case .jpeg: jpegFactor(rendition, hasOwnCodes: usesPlanes && pixels <= Double(JPEGPlanes.mostOptimized))
        case .png: rendition.progressive ? 4 : 1
        case .webp: 12
        case .gif: 12
        case .avif, .jxl: 32
        }
    }

    /// Bytes for each pixel of a JPEG.
    ///
    /// - Parameter hasOwnCodes: Whether its Huffman codes are made for it, though it has one scan.
    private static func jpegFactor(_ rendition: Rendition, hasOwnCodes: Bool) -> Double {
        // Chroma of full size, or pixels that `targetScore` may encode so.
        let isFine = rendition.quality >= 90 || rendition.targetScore != nil || rendition.chroma == .s444
        // Noise of quality 100 in 4:4:4 has 4.6 for each pixel, in a buffer that is up to half as large again.
        let data: Double = isFine ? 7 : 1
        // The coefficients of all scans.
        if rendition.progressive { return 6 + data }
        // A symbol of four bytes for each sample at most, and the data with the other codes.
        return hasOwnCodes ? (isFine ? 12 : 6) + 2 * data : data
    }

    /// The cost of the most expensive pass; passes run one after another.
    package var cost: RenderCost {
        let bytes = passes.map(bytes).max() ?? 0
        let isWhole = probe.isProgressive || [.avif, .heic, .jxl].contains(probe.type)
        let writesWhole = steps.contains { $0.rendition.format == .avif || $0.rendition.format == .jxl }
        return RenderCost(bytes: Int(bytes), isBuffered: isWhole || writesWhole || passes.contains { $0.frames > 1 })
    }

    /// How often the frames of an animation are in memory in addition, in sizes of its base: scaled frames are held one
    /// by one, beside the stack that they become if it is read in any order or by several steps.
    private func frameCopies(of pass: Pass, _ base: Double) -> Double {
        if pass.frames == 1 { return 0 }
        let isScaled = pass.base != probe.uprightSize || probe.orientation > 1
        let isStacked = pass.steps.count > 1 || pass.trim != nil || pass.steps.contains { steps[$0].needsMemory }
        let others = pass.steps.map { steps[$0].scaled }.filter { $0 != pass.base }
        let largest = others.map { Double($0.width) * Double($0.height) }.max() ?? 0
        return (isScaled && isStacked ? 1 : 0) + (base > 0 ? min(largest / base, 1) : 0)
    }

    private func bytes(of pass: Pass) -> Double {
        let page = Double(probe.width) * Double(probe.height)
        let samples = page * Double(probe.bands * probe.sampleBytes)
        // If the data turns out to be damaged, libvips decodes it as well, hence the maximum of both. The levels of the
        // pyramid together are at most as large as the decoded image.
        let levels: Double = pass.pyramidMargin == nil ? 1 : 2
        let decoding = max(
            samples * decodingFactor,
            pass.usesPlanes ? planes(of: pass, page) * levels : 0,
            hasPlanarPixels(pass) ? planarPixels(of: pass, page) : 0,
            Double(probe.heif?.bytes ?? 0)
        )
        let base = Double(pass.base.width) * Double(pass.base.height)
        // An image that is handed to the caller or shared by several steps is held in memory, as are all frames of an
        // animation.
        let isHeld =
            pass.steps.count != 1 || pass.frames > 1 || pass.trim != nil || steps[pass.steps[0]].needsMemory
            || (!pass.usesPlanes && steps[pass.steps[0]].isHeldForFacts)
        // The whole source is in memory beside the part that remains of it.
        let copies = (pass.trim == nil ? levels : levels + 1) + frameCopies(of: pass, base)
        let held = isHeld ? base * 4 * Double(pass.frames) * copies : 0
        let encoding = pass.steps.map { index in
            let area = steps[index].largestArea
            let isFromPlanes = pass.usesPlanes || encodesPlanes(pass)
            // The scaled planes, and a rotated copy of them, or one with other colors beside alpha.
            let scaled: Double = !isFromPlanes ? 0 : pass.usesPlanes && probe.orientation == 1 ? 3 : 7
            let effects = steps[index].effectFactor * Double(pass.frames)
            let rendition = steps[index].rendition
            let encoder = Self.encodingFactor(rendition, pixels: area, usesPlanes: isFromPlanes)
            let score = rendition.targetScore == nil ? 0 : TargetScore.bytes(comparing: area)
            let bytes = area * (encoder + scaled + effects) + score
            // Rows of a PNG as libvips has stored them, as blocks, as read again, and compressed.
            let isPNG = rendition.format == .png && !rendition.progressive
            return isPNG ? bytes + min(area * 16, Double(4 * PNGCompression.limit)) : bytes
        }
        return decoding + held + (encoding.max() ?? 0)
    }
}

extension RenderPlan.Step {
    /// Whether the scaled image is read more than once or out of order.
    var needsMemory: Bool {
        if rendition.rotate != nil || rendition.flip != nil || rendition.blur != nil || rendition.sharpen != nil {
            return true
        }
        if frames > 1 { return crop != nil || canvas != nil || rendition.padding != nil || rendition.watermark != nil }
        return switch crop?.place {
        case .attention, .entropy: true
        case .at, nil: false
        }
    }

    /// Pixels up to which a scaled image is held for facts about it.
    private static let heldPixels = 4 << 20

    /// Whether the scaled image is held so that facts are about all of it: encoding a crop reads only a part. The facts
    /// of a larger image are about its crop.
    var isHeldForFacts: Bool { crop != nil && frames == 1 && scaled.width * scaled.height <= Self.heldPixels }

    /// Maximum number of pixels of the result, with its padding.
    fileprivate var largestArea: Double {
        let area = Double(output.width) * Double(output.height)
        guard let trimmedArea else { return area }
        // The sides are unknown, and with them the share of the padding: no result is larger than the longest sides.
        let padding = rendition.padding.map { $0.left + $0.right + $0.top + $0.bottom } ?? 0
        return max(area, Double(trimmedArea) + Double(padding) * Double(Rendition.maximumSide))
    }

    /// Bytes for each pixel of the result that its effects hold in memory.
    fileprivate var effectFactor: Double {
        var bytes = 0.0
        // An image of its own, from which the result is made.
        if rendition.effectName != nil { bytes += 4 }
        // Text and halo, and the scaled mark.
        if rendition.watermark != nil { bytes += 12 }
        // The pixels between two encodings.
        if rendition.maxBytes != nil || rendition.targetScore != nil { bytes += 4 }
        // Decoded again to be compared.
        if rendition.targetScore != nil { bytes += 16 }
        return bytes
    }
}
