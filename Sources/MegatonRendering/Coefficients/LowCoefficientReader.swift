internal import Foundation
internal import MegatonCore

/// Reads the lowest coefficients of JPEGs, for images at a quarter or an eighth of their size.
///
/// Decoding Huffman codes is most of the work on such an image. libjpeg decodes all coefficients one by one. Here a
/// lookup has all of the first four that 12 bits contain, and others jump over the rest, of which only the number
/// matters. Written in Swift without unsafe pointers, as the data comes from strangers.
///
/// Only what usual encoders write, and only if it is whole: everything else is left to libjpeg, which knows what damage
/// is and repairs some of it.
///
/// Its buffers are reused. Used by one thread at a time.
struct LowCoefficientReader {
    /// Blocks of all components, without the edges of units.
    private(set) var output: [UInt8] = []
    private var data = EntropyData()
    private var cache = DecodingTablesCache()

    /// The part of ``output`` that a component has.
    struct Part {
        let start: Int
        /// Bytes of a row.
        let stride: Int
        let rows: Int
    }

    /// Reads all blocks of a file.
    ///
    /// - Returns: the parts of the components; nil if the file is not usual, not whole, or of another size or sampling.
    mutating func read<Form: BlockForm>(
        _ file: Data,
        of size: PixelSize,
        _ sampling: ChromaSampling,
        as form: Form.Type
    ) -> [Part]? {
        guard let header = BaselineHeader(file), header.frame.matches(size, sampling),
            let tables = cache.tables(for: header),
            let end = data.read(file, from: header.scan, intervals: header.intervals),
            file[file.startIndex + end + 1] == EntropyData.endOfImage
        else { return nil }
        let frame = header.frame
        let parts = makeOutput(of: frame, as: form)
        var blocks: [CoefficientScan<Form>.Block] = []
        for (index, (component, part)) in zip(frame.components, parts).enumerated() {
            let factors = header.segments.factors(of: component)
            for down in 0..<component.down {
                for across in 0..<component.across {
                    blocks.append(
                        CoefficientScan<Form>.Block(
                            component: index,
                            factors: factors,
                            pair: tables.pairs[index],
                            start: part.start + down * Form.height * part.stride + across * Form.width,
                            stride: part.stride,
                            nextUnit: component.across * Form.width,
                            nextRow: component.down * Form.height * part.stride
                        )
                    )
                }
            }
        }
        let scan = CoefficientScan<Form>(
            tables: tables,
            blocks: blocks,
            unitsAcross: frame.unitsAcross,
            units: frame.unitsAcross * frame.unitsDown,
            restartInterval: header.segments.restartInterval
        )
        return scan.read(data, to: &output) ? parts : nil
    }

    /// Reads the first scans of a progressive file, up to the one that completes the needed coefficients. The scans
    /// behind it are not looked at.
    ///
    /// - Parameter needs: no more than the form has.
    /// - Returns: as ``read(_:of:_:as:)``.
    mutating func readProgressive<Form: BlockForm>(
        _ file: Data,
        of size: PixelSize,
        _ sampling: ChromaSampling,
        _ needs: JPEGScanNeeds,
        as form: Form.Type
    ) -> [Part]? {
        guard var start = CodingSegments.first(of: file) else { return nil }
        var segments = CodingSegments()
        var coefficients: ProgressiveCoefficients?
        while let segment = CodingSegments.segment(of: file, at: start) {
            start = segment.end
            if segment.marker != CodingSegments.startOfScan {
                // Between scans the factors of a component may change, and libjpeg keeps those of its first scan.
                guard coefficients == nil || segment.marker != CodingSegments.quantizationTables,
                    segments.take(segment.marker, segment.body)
                else { return nil }
                continue
            }
            guard let frame = segments.frame, frame.isProgressive, frame.matches(size, sampling),
                let scan = ProgressiveScan(segment.body, frame)
            else { return nil }
            var known = coefficients ?? ProgressiveCoefficients(frame, needs)
            // The buffer has one owner, so that it is not copied.
            coefficients = nil
            let intervals = known.intervals(of: scan, segments.restartInterval)
            guard let end = data.read(file, from: start, intervals: intervals), known.read(scan, segments, data) else {
                return nil
            }
            if known.isComplete { return write(known, segments, as: form) }
            (coefficients, start) = (known, end)
        }
        return nil
    }

    /// Writes the blocks of a progressive file; nil if there are no factors for a component.
    private mutating func write<Form: BlockForm>(
        _ coefficients: ProgressiveCoefficients,
        _ segments: CodingSegments,
        as form: Form.Type
    ) -> [Part]? {
        let frame = coefficients.frame
        guard frame.components.allSatisfy({ segments.quantization[$0.quantization].count == 64 }) else { return nil }
        let parts = makeOutput(of: frame, as: form)
        var target = output.mutableSpan
        for (index, (component, part)) in zip(frame.components, parts).enumerated() {
            let factors = segments.factors(of: component)
            for row in 0..<(frame.unitsDown * component.down) {
                for column in 0..<(frame.unitsAcross * component.across) {
                    Form.write(
                        coefficients.block(column, row, of: index),
                        times: factors,
                        to: &target,
                        at: part.start &+ row &* Form.height &* part.stride &+ column &* Form.width,
                        stride: part.stride
                    )
                }
            }
        }
        return parts
    }

    /// Makes room for the blocks of all components.
    private mutating func makeOutput<Form: BlockForm>(of frame: CoefficientFrame, as form: Form.Type) -> [Part] {
        var (parts, length): ([Part], Int) = ([], 0)
        for component in frame.components {
            let part = Part(
                start: length,
                stride: frame.unitsAcross * component.across * Form.width,
                rows: frame.unitsDown * component.down * Form.height
            )
            parts.append(part)
            length += part.stride * part.rows
        }
        // Not filled again: each byte is written.
        if output.count < length { output = [UInt8](repeating: 0, count: length) }
        return parts
    }

    /// Bytes of buffers that are kept for the next image.
    private static let keptBytes = 1 << 20

    /// Frees buffers that are larger than those of most images.
    mutating func trim() {
        if output.count > Self.keptBytes { output = [] }
        data.trim(to: Self.keptBytes)
    }
}
