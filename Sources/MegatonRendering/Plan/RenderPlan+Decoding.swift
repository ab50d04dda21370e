internal import Foundation

extension RenderPlan {
    /// The coefficients that a pass needs of a progressive JPEG; nil if it needs the whole file: because it is decoded
    /// at more than a quarter of its size, or because the pass refuses damage wherever it is.
    func scanNeeds(_ pass: Pass) -> JPEGScanNeeds? {
        // TurboJPEG decodes tiny images at another size, see `TurboJPEGCodec.decode`.
        guard probe.type == .jpeg, probe.isProgressive, pass.usesPlanes || hasPlanarPixels(pass),
            min(probe.width, probe.height) >= 16, !pass.failOn.isStrict
        else { return nil }
        return switch shrink(pass) {
        case 8: .eighth
        case 4: .quarter
        default: nil
        }
    }

    /// Whether the scans that a pass needs are there, and followed by others that it does not need.
    func hasNeededScans(_ pass: Pass, in data: Data) -> Bool { prefix(pass, of: data) != nil }

    /// The scans of a progressive JPEG that a pass needs, with the marker behind them; nil if it needs the whole file.
    func neededScans(_ pass: Pass, of data: Data) -> Data? { prefix(pass, of: data).map { data.prefix($0.count + 2) } }

    /// The scans of a progressive JPEG with which libjpeg makes the same, as a file of its own; nil if it needs the
    /// whole file. It smooths blocks of which it knows the first coefficient alone over five blocks, which is seen if
    /// planes of an eighth of the size are hardly scaled any more: these need the scans for a quarter.
    func neededFile(_ pass: Pass, of data: Data) -> Data? {
        guard var needs = scanNeeds(pass) else { return nil }
        if needs == .eighth, scale(pass) < 16 { needs = .quarter }
        guard let prefix = data.withUnsafeBytes({ JPEGScanPrefix($0, for: needs) }) else { return nil }
        var file = Data(capacity: prefix.count + 2)
        file.append(data.prefix(prefix.count))
        // The end of the image: without it libjpeg would warn.
        file.append(contentsOf: [0xFF, EntropyData.endOfImage])
        return file
    }

    private func prefix(_ pass: Pass, of data: Data) -> JPEGScanPrefix? {
        scanNeeds(pass).flatMap { needs in data.withUnsafeBytes { JPEGScanPrefix($0, for: needs) } }
    }
}

extension RenderPlan {
    /// Bytes of a source's samples up to which a PNG or WebP image is decoded to planes: libvips decodes larger ones in
    /// less memory, row by row, or at a fraction of their size, and a worker with little memory would refuse them.
    static let planarPixelLimit = 12 << 20

    /// Whether a pass that needs pixels gets them from scaled planes, if the source turns out to be whole and usual:
    /// the source is decoded at once, and libvips begins with the scaled pixels.
    func hasPlanarPixels(_ pass: Pass) -> Bool {
        guard hasPlanarSource, !pass.usesPlanes, pass.frames == 1, !pass.keepsProfile, !pass.isLinear,
            pass.trim == nil,
            // Warnings about parts beside the pixels are libvips' to find.
            pass.failOn != .warning, !pass.steps.isEmpty,
            pass.steps.allSatisfy({ steps[$0].rendition.keepMetadata == .none })
        else { return false }
        // Nothing is gained if nothing is scaled down.
        let source = probe.uprightSize
        return pass.base.width < source.width && pass.base.height < source.height
    }

    /// Whether the results of a pass with planar pixels are encoded from planes too: all of them, because libvips would
    /// have to begin with pixels.
    func encodesPlanes(_ pass: Pass) -> Bool {
        hasPlanarPixels(pass) && pass.steps.allSatisfy { steps[$0].reasonPlanesUnsupported(probe) == nil }
    }

    private var hasPlanarSource: Bool {
        switch probe.type {
        case .jpeg: probe.planes != nil
        case .png, .webp:
            probe.sampleBytes == 1 && (1...4).contains(probe.bands) && !probe.isProgressive && !probe.isAnimated
                && probe.orientation == 1 && probe.notes.isEmpty
                // Rows of planes are padded, which counts in narrow images.
                && PlaneRow.padded(probe.width) * probe.height <= Self.planarPixelLimit / probe.bands
        default: false
        }
    }
}

/// The rows of planes. Processors read and write a row in vectors, which may end behind its last sample.
enum PlaneRow {
    /// Bytes; each row begins at a multiple of them.
    static let alignment = 64

    /// The length of a row with its padding, in bytes.
    static func padded(_ bytes: Int) -> Int { (bytes + alignment - 1) / alignment * alignment }
}
