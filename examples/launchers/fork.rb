# Runs jobs as forks of this process, which has loaded the application once (launcher_mode = fork).
# Open no connections and start no threads before the fork.
# require "application"

# Runs one job; what it returns is the job's exit code.
def run(job)
  puts "job #{job}, attempt #{ENV.fetch('JOBD_ATTEMPT', 1)}"
  0
end

# The exit code of a job, however it ends but by a signal.
def result(job)
  Integer(run(job) || 0)
rescue SystemExit => e
  e.status
rescue SignalException => e # Ruby makes one of a signal: the process ends by it after all
  $stdout.flush
  trap(e.signo, "SYSTEM_DEFAULT")
  Process.kill(e.signo, $$)
  128 + e.signo
rescue Exception => e
  warn e.full_message(highlight: false, order: :bottom) # the last line says what failed
  1
end

requests, answers = IO.new(3, "r"), IO.new(4, "w")
answers.sync = true
$stdout.flush # what was written while loading is no job's
answers.puts "ready"
while (line = requests.gets) && line != "quit\n"
  _, job, _, *variables = line.split
  begin
    pid = fork do
      code = 1
      begin
        Process.setpgid(0, 0)
        variables.each do |v|
          name, value = v.gsub(/%(\h\h)/) { $1.hex.chr }.split("=", 2)
          ENV[name] = value
        end
        answers.puts "started #{job} #{$$}"
        code = result(Integer(job))
        $stdout.flush
      ensure
        exit!(code) # not exit: that would end what the parent needs still
      end
    end
  rescue SystemCallError
    answers.puts "refused #{job}"
    next
  end
  answers.puts "ended #{job} #{Process.wait2(pid)[1].to_i}"
end
