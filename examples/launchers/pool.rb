# Runs one job after the other in this process (launcher_mode = pool). What a job leaves behind, the
# next one finds: globals, open transactions, changed settings.
# require "application"

# Runs one job; what it returns is the job's exit code.
def run(job)
  puts "job #{job}, attempt #{ENV.fetch('JOBD_ATTEMPT', 1)}"
  0
end

requests, answers = IO.new(3, "r"), IO.new(4, "w")
answers.sync = true
answers.puts "ready"
while (line = requests.gets) && line != "quit\n"
  _, job, _, *variables = line.split
  variables = variables.to_h { |v| v.gsub(/%(\h\h)/) { $1.hex.chr }.split("=", 2) }
  ENV.update(variables)
  answers.puts "started #{job}"
  begin
    code = run(Integer(job))
  rescue StandardError => e
    warn e.full_message
    code = 1
  end
  variables.each_key { |name| ENV.delete(name) }
  $stdout.flush
  answers.puts "exit #{job} #{code}"
end
